"""The array functions of ``jg``. Those marked as methods are methods of Tensor, too."""

from jitgraph.tensor.functions.arithmetic import addcdiv as addcdiv  # method
from jitgraph.tensor.functions.arithmetic import addcmul as addcmul  # method
from jitgraph.tensor.functions.arithmetic import cbrt as cbrt  # method
from jitgraph.tensor.functions.arithmetic import deg2rad as deg2rad  # method
from jitgraph.tensor.functions.arithmetic import divmod as divmod  # method
from jitgraph.tensor.functions.arithmetic import float_power as float_power  # method
from jitgraph.tensor.functions.arithmetic import fmod as fmod  # method
from jitgraph.tensor.functions.arithmetic import frac as frac  # method
from jitgraph.tensor.functions.arithmetic import frexp as frexp  # method
from jitgraph.tensor.functions.arithmetic import ldexp as ldexp  # method
from jitgraph.tensor.functions.arithmetic import lerp as lerp  # method
from jitgraph.tensor.functions.arithmetic import logaddexp2 as logaddexp2  # method
from jitgraph.tensor.functions.arithmetic import modf as modf  # method
from jitgraph.tensor.functions.arithmetic import rad2deg as rad2deg  # method
from jitgraph.tensor.functions.arrangement import atleast_1d as atleast_1d
from jitgraph.tensor.functions.arrangement import atleast_2d as atleast_2d
from jitgraph.tensor.functions.arrangement import atleast_3d as atleast_3d
from jitgraph.tensor.functions.arrangement import block_diag as block_diag
from jitgraph.tensor.functions.arrangement import column_stack as column_stack
from jitgraph.tensor.functions.arrangement import diag as diag  # method
from jitgraph.tensor.functions.arrangement import diag_embed as diag_embed  # method
from jitgraph.tensor.functions.arrangement import diagflat as diagflat  # method
from jitgraph.tensor.functions.arrangement import diagonal as diagonal  # method
from jitgraph.tensor.functions.arrangement import diagonal_scatter as diagonal_scatter  # method
from jitgraph.tensor.functions.arrangement import dsplit as dsplit  # method
from jitgraph.tensor.functions.arrangement import dstack as dstack
from jitgraph.tensor.functions.arrangement import fliplr as fliplr  # method
from jitgraph.tensor.functions.arrangement import flipud as flipud  # method
from jitgraph.tensor.functions.arrangement import hsplit as hsplit  # method
from jitgraph.tensor.functions.arrangement import hstack as hstack
from jitgraph.tensor.functions.arrangement import movedim as movedim  # method
from jitgraph.tensor.functions.arrangement import narrow as narrow  # method
from jitgraph.tensor.functions.arrangement import ravel as ravel  # method
from jitgraph.tensor.functions.arrangement import rollaxis as rollaxis  # method
from jitgraph.tensor.functions.arrangement import rot90 as rot90  # method
from jitgraph.tensor.functions.arrangement import select_scatter as select_scatter  # method
from jitgraph.tensor.functions.arrangement import slice_scatter as slice_scatter  # method
from jitgraph.tensor.functions.arrangement import swapdims as swapdims  # method
from jitgraph.tensor.functions.arrangement import tensor_split as tensor_split  # method
from jitgraph.tensor.functions.arrangement import tril_indices as tril_indices
from jitgraph.tensor.functions.arrangement import triu_indices as triu_indices
from jitgraph.tensor.functions.arrangement import unflatten as unflatten  # method
from jitgraph.tensor.functions.arrangement import unfold as unfold  # method
from jitgraph.tensor.functions.arrangement import vsplit as vsplit  # method
from jitgraph.tensor.functions.arrangement import vstack as vstack
from jitgraph.tensor.functions.choosing import append as append  # method
from jitgraph.tensor.functions.choosing import apply_over_axes as apply_over_axes
from jitgraph.tensor.functions.choosing import choose as choose  # method
from jitgraph.tensor.functions.choosing import delete as delete  # method
from jitgraph.tensor.functions.choosing import insert as insert  # method
from jitgraph.tensor.functions.choosing import piecewise as piecewise
from jitgraph.tensor.functions.choosing import repeat as repeat  # method
from jitgraph.tensor.functions.choosing import resize as resize
from jitgraph.tensor.functions.choosing import select as select
from jitgraph.tensor.functions.comparisons import allclose as allclose  # method
from jitgraph.tensor.functions.comparisons import array_equal as array_equal  # method
from jitgraph.tensor.functions.comparisons import fmax as fmax  # method
from jitgraph.tensor.functions.comparisons import fmin as fmin  # method
from jitgraph.tensor.functions.comparisons import heaviside as heaviside  # method
from jitgraph.tensor.functions.comparisons import isclose as isclose  # method
from jitgraph.tensor.functions.comparisons import iscomplex as iscomplex  # method
from jitgraph.tensor.functions.comparisons import isneginf as isneginf  # method
from jitgraph.tensor.functions.comparisons import isposinf as isposinf  # method
from jitgraph.tensor.functions.comparisons import isreal as isreal  # method
from jitgraph.tensor.functions.comparisons import nan_to_num as nan_to_num  # method
from jitgraph.tensor.functions.complex_numbers import angle as angle  # method
from jitgraph.tensor.functions.complex_numbers import complex as complex
from jitgraph.tensor.functions.complex_numbers import conj as conj  # method
from jitgraph.tensor.functions.complex_numbers import imag as imag
from jitgraph.tensor.functions.complex_numbers import polar as polar
from jitgraph.tensor.functions.complex_numbers import real as real
from jitgraph.tensor.functions.complex_numbers import view_as_complex as view_as_complex
from jitgraph.tensor.functions.complex_numbers import view_as_real as view_as_real
from jitgraph.tensor.functions.creation import arange as arange
from jitgraph.tensor.functions.creation import asarray as asarray
from jitgraph.tensor.functions.creation import clone as clone  # method
from jitgraph.tensor.functions.creation import empty as empty
from jitgraph.tensor.functions.creation import empty_like as empty_like
from jitgraph.tensor.functions.creation import eye as eye
from jitgraph.tensor.functions.creation import full as full
from jitgraph.tensor.functions.creation import full_like as full_like
from jitgraph.tensor.functions.creation import linspace as linspace
from jitgraph.tensor.functions.creation import ones as ones
from jitgraph.tensor.functions.creation import ones_like as ones_like
from jitgraph.tensor.functions.creation import tril as tril  # method
from jitgraph.tensor.functions.creation import triu as triu  # method
from jitgraph.tensor.functions.creation import zeros as zeros
from jitgraph.tensor.functions.creation import zeros_like as zeros_like
from jitgraph.tensor.functions.elementwise import abs as abs  # method
from jitgraph.tensor.functions.elementwise import acos as acos  # method
from jitgraph.tensor.functions.elementwise import acosh as acosh  # method
from jitgraph.tensor.functions.elementwise import add as add  # method
from jitgraph.tensor.functions.elementwise import asin as asin  # method
from jitgraph.tensor.functions.elementwise import asinh as asinh  # method
from jitgraph.tensor.functions.elementwise import astype as astype  # method
from jitgraph.tensor.functions.elementwise import atan as atan  # method
from jitgraph.tensor.functions.elementwise import atan2 as atan2  # method
from jitgraph.tensor.functions.elementwise import atanh as atanh  # method
from jitgraph.tensor.functions.elementwise import bitwise_and as bitwise_and  # method
from jitgraph.tensor.functions.elementwise import bitwise_invert as bitwise_invert  # method
from jitgraph.tensor.functions.elementwise import bitwise_left_shift as bitwise_left_shift  # method
from jitgraph.tensor.functions.elementwise import bitwise_or as bitwise_or  # method
from jitgraph.tensor.functions.elementwise import bitwise_right_shift as bitwise_right_shift  # method
from jitgraph.tensor.functions.elementwise import bitwise_xor as bitwise_xor  # method
from jitgraph.tensor.functions.elementwise import ceil as ceil  # method
from jitgraph.tensor.functions.elementwise import clamp as clamp  # method
from jitgraph.tensor.functions.elementwise import clip as clip  # method
from jitgraph.tensor.functions.elementwise import copysign as copysign  # method
from jitgraph.tensor.functions.elementwise import cos as cos  # method
from jitgraph.tensor.functions.elementwise import cosh as cosh  # method
from jitgraph.tensor.functions.elementwise import divide as divide  # method
from jitgraph.tensor.functions.elementwise import equal as equal  # method
from jitgraph.tensor.functions.elementwise import erf as erf  # method
from jitgraph.tensor.functions.elementwise import exp as exp  # method
from jitgraph.tensor.functions.elementwise import exp2 as exp2  # method
from jitgraph.tensor.functions.elementwise import expm1 as expm1  # method
from jitgraph.tensor.functions.elementwise import floor as floor  # method
from jitgraph.tensor.functions.elementwise import floor_divide as floor_divide  # method
from jitgraph.tensor.functions.elementwise import greater as greater  # method
from jitgraph.tensor.functions.elementwise import greater_equal as greater_equal  # method
from jitgraph.tensor.functions.elementwise import hypot as hypot  # method
from jitgraph.tensor.functions.elementwise import isfinite as isfinite  # method
from jitgraph.tensor.functions.elementwise import isinf as isinf  # method
from jitgraph.tensor.functions.elementwise import isnan as isnan  # method
from jitgraph.tensor.functions.elementwise import less as less  # method
from jitgraph.tensor.functions.elementwise import less_equal as less_equal  # method
from jitgraph.tensor.functions.elementwise import log as log  # method
from jitgraph.tensor.functions.elementwise import log1p as log1p  # method
from jitgraph.tensor.functions.elementwise import log2 as log2  # method
from jitgraph.tensor.functions.elementwise import log10 as log10  # method
from jitgraph.tensor.functions.elementwise import logaddexp as logaddexp  # method
from jitgraph.tensor.functions.elementwise import logical_and as logical_and  # method
from jitgraph.tensor.functions.elementwise import logical_not as logical_not  # method
from jitgraph.tensor.functions.elementwise import logical_or as logical_or  # method
from jitgraph.tensor.functions.elementwise import logical_xor as logical_xor  # method
from jitgraph.tensor.functions.elementwise import masked_fill as masked_fill  # method
from jitgraph.tensor.functions.elementwise import maximum as maximum  # method
from jitgraph.tensor.functions.elementwise import minimum as minimum  # method
from jitgraph.tensor.functions.elementwise import multiply as multiply  # method
from jitgraph.tensor.functions.elementwise import negative as negative  # method
from jitgraph.tensor.functions.elementwise import nextafter as nextafter  # method
from jitgraph.tensor.functions.elementwise import not_equal as not_equal  # method
from jitgraph.tensor.functions.elementwise import positive as positive  # method
from jitgraph.tensor.functions.elementwise import pow as pow  # method
from jitgraph.tensor.functions.elementwise import reciprocal as reciprocal  # method
from jitgraph.tensor.functions.elementwise import relu as relu  # method
from jitgraph.tensor.functions.elementwise import remainder as remainder  # method
from jitgraph.tensor.functions.elementwise import round as round  # method
from jitgraph.tensor.functions.elementwise import rsqrt as rsqrt  # method
from jitgraph.tensor.functions.elementwise import sigmoid as sigmoid  # method
from jitgraph.tensor.functions.elementwise import sign as sign  # method
from jitgraph.tensor.functions.elementwise import signbit as signbit  # method
from jitgraph.tensor.functions.elementwise import sin as sin  # method
from jitgraph.tensor.functions.elementwise import sinh as sinh  # method
from jitgraph.tensor.functions.elementwise import sqrt as sqrt  # method
from jitgraph.tensor.functions.elementwise import square as square  # method
from jitgraph.tensor.functions.elementwise import subtract as subtract  # method
from jitgraph.tensor.functions.elementwise import tan as tan  # method
from jitgraph.tensor.functions.elementwise import tanh as tanh  # method
from jitgraph.tensor.functions.elementwise import trunc as trunc  # method
from jitgraph.tensor.functions.elementwise import where as where
from jitgraph.tensor.functions.grids import broadcast_shapes as broadcast_shapes
from jitgraph.tensor.functions.grids import cartesian_prod as cartesian_prod
from jitgraph.tensor.functions.grids import combinations as combinations  # method
from jitgraph.tensor.functions.grids import diag_indices as diag_indices
from jitgraph.tensor.functions.grids import digitize as digitize  # method
from jitgraph.tensor.functions.grids import from_dlpack as from_dlpack
from jitgraph.tensor.functions.grids import indices as indices
from jitgraph.tensor.functions.grids import ix_ as ix_
from jitgraph.tensor.functions.grids import meshgrid as meshgrid
from jitgraph.tensor.functions.grids import put as put  # method
from jitgraph.tensor.functions.grids import ravel_multi_index as ravel_multi_index
from jitgraph.tensor.functions.grids import tri as tri
from jitgraph.tensor.functions.grids import unravel_index as unravel_index  # method
from jitgraph.tensor.functions.integers import bitwise_count as bitwise_count  # method
from jitgraph.tensor.functions.integers import gcd as gcd  # method
from jitgraph.tensor.functions.integers import lcm as lcm  # method
from jitgraph.tensor.functions.integers import packbits as packbits  # method
from jitgraph.tensor.functions.integers import unpackbits as unpackbits  # method
from jitgraph.tensor.functions.integers import view as view  # method
from jitgraph.tensor.functions.linear_algebra import matmul as matmul  # method
from jitgraph.tensor.functions.linear_algebra import outer as outer
from jitgraph.tensor.functions.linear_algebra import tensordot as tensordot
from jitgraph.tensor.functions.linear_algebra import vecdot as vecdot
from jitgraph.tensor.functions.manipulation import broadcast_arrays as broadcast_arrays
from jitgraph.tensor.functions.manipulation import broadcast_to as broadcast_to  # method
from jitgraph.tensor.functions.manipulation import chunk as chunk  # method
from jitgraph.tensor.functions.manipulation import concat as concat
from jitgraph.tensor.functions.manipulation import concatenate as concatenate
from jitgraph.tensor.functions.manipulation import flip as flip  # method
from jitgraph.tensor.functions.manipulation import index_add as index_add  # method
from jitgraph.tensor.functions.manipulation import index_select as index_select  # method
from jitgraph.tensor.functions.manipulation import moveaxis as moveaxis  # method
from jitgraph.tensor.functions.manipulation import pad as pad  # method
from jitgraph.tensor.functions.manipulation import roll as roll  # method
from jitgraph.tensor.functions.manipulation import split as split  # method
from jitgraph.tensor.functions.manipulation import stack as stack
from jitgraph.tensor.functions.manipulation import swapaxes as swapaxes  # method
from jitgraph.tensor.functions.manipulation import take as take  # method
from jitgraph.tensor.functions.manipulation import take_along_axis as take_along_axis  # method
from jitgraph.tensor.functions.manipulation import tile as tile  # method
from jitgraph.tensor.functions.manipulation import unstack as unstack  # method
from jitgraph.tensor.functions.nan_aware import aminmax as aminmax  # method
from jitgraph.tensor.functions.nan_aware import average as average  # method
from jitgraph.tensor.functions.nan_aware import nanargmax as nanargmax  # method
from jitgraph.tensor.functions.nan_aware import nanargmin as nanargmin  # method
from jitgraph.tensor.functions.nan_aware import nancumprod as nancumprod  # method
from jitgraph.tensor.functions.nan_aware import nancumsum as nancumsum  # method
from jitgraph.tensor.functions.nan_aware import nanmax as nanmax  # method
from jitgraph.tensor.functions.nan_aware import nanmean as nanmean  # method
from jitgraph.tensor.functions.nan_aware import nanmin as nanmin  # method
from jitgraph.tensor.functions.nan_aware import nanprod as nanprod  # method
from jitgraph.tensor.functions.nan_aware import nanstd as nanstd  # method
from jitgraph.tensor.functions.nan_aware import nansum as nansum  # method
from jitgraph.tensor.functions.nan_aware import nanvar as nanvar  # method
from jitgraph.tensor.functions.nan_aware import ptp as ptp  # method
from jitgraph.tensor.functions.nan_aware import std_mean as std_mean  # method
from jitgraph.tensor.functions.nan_aware import var_mean as var_mean  # method
from jitgraph.tensor.functions.norms import cdist as cdist  # method
from jitgraph.tensor.functions.norms import dist as dist  # method
from jitgraph.tensor.functions.norms import pdist as pdist  # method
from jitgraph.tensor.functions.norms import renorm as renorm  # method
from jitgraph.tensor.functions.ordering import argpartition as argpartition  # method
from jitgraph.tensor.functions.ordering import bincount as bincount  # method
from jitgraph.tensor.functions.ordering import bucketize as bucketize  # method
from jitgraph.tensor.functions.ordering import histc as histc  # method
from jitgraph.tensor.functions.ordering import histogram as histogram  # method
from jitgraph.tensor.functions.ordering import histogram2d as histogram2d
from jitgraph.tensor.functions.ordering import histogram_bin_edges as histogram_bin_edges
from jitgraph.tensor.functions.ordering import histogramdd as histogramdd  # method
from jitgraph.tensor.functions.ordering import kthvalue as kthvalue  # method
from jitgraph.tensor.functions.ordering import lexsort as lexsort
from jitgraph.tensor.functions.ordering import median as median  # method
from jitgraph.tensor.functions.ordering import mode as mode  # method
from jitgraph.tensor.functions.ordering import msort as msort  # method
from jitgraph.tensor.functions.ordering import nanmedian as nanmedian  # method
from jitgraph.tensor.functions.ordering import nanpercentile as nanpercentile  # method
from jitgraph.tensor.functions.ordering import nanquantile as nanquantile  # method
from jitgraph.tensor.functions.ordering import partition as partition  # method
from jitgraph.tensor.functions.ordering import percentile as percentile  # method
from jitgraph.tensor.functions.ordering import quantile as quantile  # method
from jitgraph.tensor.functions.ordering import topk as topk  # method
from jitgraph.tensor.functions.reductions import all as all  # method
from jitgraph.tensor.functions.reductions import any as any  # method
from jitgraph.tensor.functions.reductions import argmax as argmax  # method
from jitgraph.tensor.functions.reductions import argmin as argmin  # method
from jitgraph.tensor.functions.reductions import argsort as argsort  # method
from jitgraph.tensor.functions.reductions import cummax as cummax  # method
from jitgraph.tensor.functions.reductions import cummin as cummin  # method
from jitgraph.tensor.functions.reductions import cumprod as cumprod  # method
from jitgraph.tensor.functions.reductions import cumsum as cumsum  # method
from jitgraph.tensor.functions.reductions import cumulative_prod as cumulative_prod  # method
from jitgraph.tensor.functions.reductions import cumulative_sum as cumulative_sum  # method
from jitgraph.tensor.functions.reductions import log_softmax as log_softmax  # method
from jitgraph.tensor.functions.reductions import logsumexp as logsumexp  # method
from jitgraph.tensor.functions.reductions import max as max  # method
from jitgraph.tensor.functions.reductions import mean as mean  # method
from jitgraph.tensor.functions.reductions import min as min  # method
from jitgraph.tensor.functions.reductions import prod as prod  # method
from jitgraph.tensor.functions.reductions import softmax as softmax  # method
from jitgraph.tensor.functions.reductions import sort as sort  # method
from jitgraph.tensor.functions.reductions import std as std  # method
from jitgraph.tensor.functions.reductions import sum as sum  # method
from jitgraph.tensor.functions.reductions import var as var  # method
from jitgraph.tensor.functions.sampled import convolve as convolve
from jitgraph.tensor.functions.sampled import corrcoef as corrcoef  # method
from jitgraph.tensor.functions.sampled import correlate as correlate
from jitgraph.tensor.functions.sampled import cov as cov  # method
from jitgraph.tensor.functions.sampled import cumulative_trapezoid as cumulative_trapezoid
from jitgraph.tensor.functions.sampled import gradient as gradient
from jitgraph.tensor.functions.sampled import interp as interp  # method
from jitgraph.tensor.functions.sampled import logcumsumexp as logcumsumexp  # method
from jitgraph.tensor.functions.sampled import trapezoid as trapezoid
from jitgraph.tensor.functions.sampled import unwrap as unwrap  # method
from jitgraph.tensor.functions.scattering import dynamic_slice as dynamic_slice  # method
from jitgraph.tensor.functions.scattering import dynamic_update_slice as dynamic_update_slice  # method
from jitgraph.tensor.functions.scattering import gather as gather  # method
from jitgraph.tensor.functions.scattering import index_copy as index_copy  # method
from jitgraph.tensor.functions.scattering import index_fill as index_fill  # method
from jitgraph.tensor.functions.scattering import index_put as index_put  # method
from jitgraph.tensor.functions.scattering import index_reduce as index_reduce  # method
from jitgraph.tensor.functions.scattering import masked_scatter as masked_scatter  # method
from jitgraph.tensor.functions.scattering import masked_select as masked_select  # method
from jitgraph.tensor.functions.scattering import put_along_axis as put_along_axis  # method
from jitgraph.tensor.functions.scattering import scatter as scatter  # method
from jitgraph.tensor.functions.scattering import scatter_add as scatter_add  # method
from jitgraph.tensor.functions.scattering import scatter_reduce as scatter_reduce  # method
from jitgraph.tensor.functions.scattering import segment_reduce as segment_reduce  # method
from jitgraph.tensor.functions.scattering import segment_sum as segment_sum  # method
from jitgraph.tensor.functions.searching import count_nonzero as count_nonzero  # method
from jitgraph.tensor.functions.searching import diff as diff  # method
from jitgraph.tensor.functions.searching import isin as isin  # method
from jitgraph.tensor.functions.searching import nonzero as nonzero  # method
from jitgraph.tensor.functions.searching import searchsorted as searchsorted  # method
from jitgraph.tensor.functions.sets import intersect1d as intersect1d
from jitgraph.tensor.functions.sets import setdiff1d as setdiff1d
from jitgraph.tensor.functions.sets import setxor1d as setxor1d
from jitgraph.tensor.functions.sets import union1d as union1d
from jitgraph.tensor.functions.sets import unique as unique  # method
from jitgraph.tensor.functions.sets import unique_all as unique_all  # method
from jitgraph.tensor.functions.sets import unique_consecutive as unique_consecutive  # method
from jitgraph.tensor.functions.sets import unique_counts as unique_counts  # method
from jitgraph.tensor.functions.sets import unique_inverse as unique_inverse  # method
from jitgraph.tensor.functions.sets import unique_values as unique_values  # method
from jitgraph.tensor.functions.shapes import expand_dims as expand_dims  # method
from jitgraph.tensor.functions.shapes import flatten as flatten  # method
from jitgraph.tensor.functions.shapes import matrix_transpose as matrix_transpose  # method
from jitgraph.tensor.functions.shapes import permute_dims as permute_dims  # method
from jitgraph.tensor.functions.shapes import reshape as reshape  # method
from jitgraph.tensor.functions.shapes import squeeze as squeeze  # method
from jitgraph.tensor.functions.shapes import transpose as transpose  # method
from jitgraph.tensor.functions.shapes import unsqueeze as unsqueeze  # method
from jitgraph.tensor.functions.tapers import bartlett_window as bartlett_window
from jitgraph.tensor.functions.tapers import blackman_window as blackman_window
from jitgraph.tensor.functions.tapers import geomspace as geomspace
from jitgraph.tensor.functions.tapers import hamming_window as hamming_window
from jitgraph.tensor.functions.tapers import hann_window as hann_window
from jitgraph.tensor.functions.tapers import kaiser_window as kaiser_window
from jitgraph.tensor.functions.tapers import logspace as logspace
