"""A sample of the test cases of onnx's own backends; ``python -m tests.onnx.backend_cases`` runs all."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from tests.onnx.backend_cases import cases, outcome

NAMES = (
    "test_add_bcast",
    "test_and_bcast4v2d",
    "test_argmax_keepdims_random_select_last_index",
    "test_attention_4d_gqa_scaled",
    "test_averagepool_2d_ceil",
    "test_averagepool_2d_dilations",
    "test_batchnorm_epsilon_training_mode",
    "test_cast_FLOAT_to_FLOAT8E4M3FN",
    "test_cast_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ",
    "test_clip_default_inbounds",
    "test_compress_0",
    "test_conv_with_strides_and_asymmetric_padding",
    "test_convtranspose_output_shape",
    "test_cumsum_1d_reverse_exclusive",
    "test_dequantizelinear_blocked",
    "test_dft_inverse",
    "test_expand_dim_changed",
    "test_gather_negative_indices",
    "test_gathernd_example_int32_batch_dim1",
    "test_gru_batchwise",
    "test_identity_sequence",
    "test_if_seq",
    "test_loop11",
    "test_loop16_seq_none",
    "test_lstm_with_peepholes",
    "test_maxpool_with_argmax_2d_precomputed_strides",
    "test_mod_mixed_sign_int8",
    "test_nllloss_NCd1d2_with_weight_reduction_sum_ii",
    "test_nonmaxsuppression_center_point_box_format",
    "test_onehot_negative_indices",
    "test_pow_types_float32_int64",
    "test_qlinearconv",
    "test_quantizelinear_int4",
    "test_range_float_type_positive_delta_expanded",
    "test_reduce_max_empty_set",
    "test_resize_tf_crop_and_resize",
    "test_reversesequence_time",
    "test_scan9_sum",
    "test_scatternd_multiply",
    "test_sequence_map_extract_shapes",
    "test_shape_start_negative_1",
    "test_slice_neg_steps",
    "test_split_to_sequence_2",
    "test_strnormalizer_export_monday_casesensintive_lower",
    "test_top_k_negative_axis",
    "test_unique_not_sorted_without_axis",
)


@pytest.fixture(scope="module")
def node_cases() -> dict[str, object]:
    return {case.name: case for case in cases("node", f"^({'|'.join(NAMES)})$")}


@pytest.mark.parametrize("name", NAMES)
def test_a_case_is_right(node_cases: dict[str, object], name: str) -> None:
    result = outcome(node_cases[name])  # type: ignore[arg-type]
    assert result.kind == "right", result.reason


def test_what_is_not_known_is_refused_by_name() -> None:
    for case in cases("node", "^test_image_decoder_decode_png_rgb$"):
        result = outcome(case)
        assert result.kind == "refused" and "ImageDecoder" in result.reason
