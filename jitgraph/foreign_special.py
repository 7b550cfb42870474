"""SciPy's special functions that are spelt otherwise here, or have no place, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SCIPY: Final = (
    "ai_zeros airy airye assoc_laguerre assoc_legendre_p assoc_legendre_p_all bdtri bdtrik bdtrin bei bei_zeros "
    "beip beip_zeros ber ber_zeros bernoulli berp berp_zeros besselpoly betainccinv betaincinv bi_zeros btdtria "
    "btdtrib c_roots cbrt cg_roots chdtri chdtriv chebyc chebys chebyt chebyu chndtr chndtridf chndtrinc chndtrix "
    "cosdg cotdg dawsn diric ellip_harm ellip_harm_2 ellip_normal ellipeinc ellipj ellipkinc elliprc elliprd "
    "elliprf elliprg elliprj erf_zeros erfi euler eval_chebyc eval_chebys eval_chebyt eval_chebyu eval_gegenbauer "
    "eval_genlaguerre eval_hermite eval_hermitenorm eval_jacobi eval_laguerre eval_legendre eval_sh_chebyt "
    "eval_sh_chebyu eval_sh_jacobi eval_sh_legendre exp1 expi expn factorial2 factorialk fdtri fdtridfd fresnel "
    "fresnel_zeros fresnelc_zeros fresnels_zeros gammainccinv gammaincinv gdtria gdtrib gdtrix gegenbauer "
    "genlaguerre geterr h1vp h2vp h_roots hankel1 hankel1e hankel2 hankel2e he_roots hermite hermitenorm hyp0f1 "
    "hyp1f1 hyp2f1 hyperu it2i0k0 it2j0y0 it2struve0 itairy iti0k0 itj0y0 itmodstruve0 itstruve0 iv ive ivp j_roots "
    "jacobi jn jn_zeros jnjnp_zeros jnp_zeros jnyn_zeros js_roots jv jve jvp kei kei_zeros keip keip_zeros kelvin "
    "kelvin_zeros ker ker_zeros kerp kerp_zeros kn kolmogi kolmogorov kv kve kvp l_roots la_roots laguerre lambertw "
    "legendre legendre_p legendre_p_all lmbda log_wright_bessel loggamma lpmv lqmn lqn mathieu_a mathieu_b "
    "mathieu_cem mathieu_even_coef mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 mathieu_odd_coef "
    "mathieu_sem modfresnelm modfresnelp modstruve nbdtri nbdtrik nbdtrin ncfdtr ncfdtri ncfdtridfd ncfdtridfn "
    "ncfdtrinc nctdtr nctdtridf nctdtrinc nctdtrit ndtri_exp nrdtrimn nrdtrisd obl_ang1 obl_ang1_cv obl_cv "
    "obl_cv_seq obl_rad1 obl_rad1_cv obl_rad2 obl_rad2_cv owens_t p_roots pbdn_seq pbdv pbdv_seq pbvv pbvv_seq pbwa "
    "pdtri pdtrik pro_ang1 pro_ang1_cv pro_cv pro_cv_seq pro_rad1 pro_rad1_cv pro_rad2 pro_rad2_cv ps_roots radian "
    "riccati_jn riccati_yn roots_chebyc roots_chebys roots_chebyt roots_chebyu roots_gegenbauer roots_genlaguerre "
    "roots_hermite roots_hermitenorm roots_jacobi roots_laguerre roots_legendre roots_sh_chebyt roots_sh_chebyu "
    "roots_sh_jacobi roots_sh_legendre s_roots seterr sh_chebyt sh_chebyu sh_jacobi sh_legendre shichi sici sindg "
    "smirnov smirnovi spence sph_harm_y sph_harm_y_all sph_legendre_p sph_legendre_p_all spherical_in spherical_jn "
    "spherical_kn spherical_yn stdtridf stdtrit stirling2 struve t_roots tandg test tklmbda ts_roots u_roots "
    "us_roots voigt_profile wofz wright_bessel wrightomega y0_zeros y1_zeros y1p_zeros yn yn_zeros ynp_zeros yv yve "
    "yvp zetac"
)
OF_SCIPY: Final[Mapping[str, str]] = {
    "eval_chebyt": "jg.special.chebyshev_polynomial_t(x, n)",
    "eval_chebyu": "jg.special.chebyshev_polynomial_u(x, n)",
    "eval_hermite": "jg.special.hermite_polynomial_h(x, n)",
    "eval_hermitenorm": "jg.special.hermite_polynomial_he(x, n)",
    "eval_laguerre": "jg.special.laguerre_polynomial_l(x, n)",
    "eval_legendre": "jg.special.legendre_polynomial_p(x, n)",
    "eval_sh_chebyt": "jg.special.shifted_chebyshev_polynomial_t(x, n)",
    "eval_sh_chebyu": "jg.special.shifted_chebyshev_polynomial_u(x, n)",
    "cbrt": "jg.cbrt",
    "iv": "jg.special.i0 or jg.special.i1",
    "ive": "jg.special.i0e or jg.special.i1e",
    "jv": "jg.special.j0 or jg.special.j1",
    "kn": "jg.special.k0 or jg.special.k1",
    "kv": "jg.special.k0 or jg.special.k1",
    "kve": "jg.special.k0e or jg.special.k1e",
    "yn": "jg.special.y0 or jg.special.y1",
    "yv": "jg.special.y0 or jg.special.y1",
    "jn": "jg.special.j0 or jg.special.j1",
    "loggamma": "jg.special.lgamma",
    "spherical_jn": "jg.special.spherical_bessel_j0",
}


def of_scipy(name: str) -> str | None:
    """What to write for a special function of SciPy that ``jg.special`` lacks; None for what SciPy lacks, too."""
    if name in OF_SCIPY:
        return OF_SCIPY[name]
    if name in SCIPY.split():
        return f"scipy.special.{name}(np.asarray(x)) outside of traces, or jg.custom_op of it"
    return None
