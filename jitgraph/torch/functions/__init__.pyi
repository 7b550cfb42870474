"""The functions of ``torch``, and where each is defined; ``__init__.py`` says what the marks mean."""

from jitgraph.torch.aten_ops.draws import alpha_dropout as alpha_dropout  # in_place
from jitgraph.torch.aten_ops.draws import dropout as dropout  # in_place
from jitgraph.torch.aten_ops.draws import feature_alpha_dropout as feature_alpha_dropout  # in_place
from jitgraph.torch.aten_ops.draws import feature_dropout as feature_dropout  # in_place
from jitgraph.torch.aten_ops.draws import native_dropout as native_dropout
from jitgraph.torch.aten_ops.draws import rrelu as rrelu  # in_place
from jitgraph.torch.aten_ops.indexing import bucketize as bucketize
from jitgraph.torch.aten_ops.indexing import embedding as embedding
from jitgraph.torch.aten_ops.indexing import embedding_bag as embedding_bag
from jitgraph.torch.aten_ops.indexing import index_add as index_add  # method in_place
from jitgraph.torch.aten_ops.indexing import index_copy as index_copy  # method in_place
from jitgraph.torch.aten_ops.indexing import index_fill as index_fill  # method in_place
from jitgraph.torch.aten_ops.indexing import index_reduce as index_reduce  # method in_place
from jitgraph.torch.aten_ops.indexing import index_select as index_select  # method
from jitgraph.torch.aten_ops.indexing import masked_select as masked_select  # method
from jitgraph.torch.aten_ops.indexing import put as put  # method in_place
from jitgraph.torch.aten_ops.indexing import scatter_add as scatter_add  # method in_place
from jitgraph.torch.aten_ops.indexing import searchsorted as searchsorted
from jitgraph.torch.aten_ops.layers import adaptive_avg_pool1d as adaptive_avg_pool1d
from jitgraph.torch.aten_ops.layers import adaptive_max_pool1d as adaptive_max_pool1d
from jitgraph.torch.aten_ops.layers import affine_grid_generator as affine_grid_generator
from jitgraph.torch.aten_ops.layers import avg_pool1d as avg_pool1d
from jitgraph.torch.aten_ops.layers import batch_norm as batch_norm
from jitgraph.torch.aten_ops.layers import celu as celu  # in_place
from jitgraph.torch.aten_ops.layers import conv1d as conv1d
from jitgraph.torch.aten_ops.layers import conv2d as conv2d
from jitgraph.torch.aten_ops.layers import conv3d as conv3d
from jitgraph.torch.aten_ops.layers import conv_tbc as conv_tbc
from jitgraph.torch.aten_ops.layers import conv_transpose1d as conv_transpose1d
from jitgraph.torch.aten_ops.layers import conv_transpose2d as conv_transpose2d
from jitgraph.torch.aten_ops.layers import conv_transpose3d as conv_transpose3d
from jitgraph.torch.aten_ops.layers import convolution as convolution
from jitgraph.torch.aten_ops.layers import cosine_similarity as cosine_similarity
from jitgraph.torch.aten_ops.layers import grid_sampler as grid_sampler
from jitgraph.torch.aten_ops.layers import grid_sampler_2d as grid_sampler_2d
from jitgraph.torch.aten_ops.layers import grid_sampler_3d as grid_sampler_3d
from jitgraph.torch.aten_ops.layers import group_norm as group_norm
from jitgraph.torch.aten_ops.layers import gru_cell as gru_cell
from jitgraph.torch.aten_ops.layers import hardshrink as hardshrink  # method
from jitgraph.torch.aten_ops.layers import instance_norm as instance_norm
from jitgraph.torch.aten_ops.layers import layer_norm as layer_norm
from jitgraph.torch.aten_ops.layers import lstm_cell as lstm_cell
from jitgraph.torch.aten_ops.layers import max_pool1d as max_pool1d
from jitgraph.torch.aten_ops.layers import max_pool1d_with_indices as max_pool1d_with_indices
from jitgraph.torch.aten_ops.layers import max_pool2d as max_pool2d
from jitgraph.torch.aten_ops.layers import max_pool3d as max_pool3d
from jitgraph.torch.aten_ops.layers import native_batch_norm as native_batch_norm
from jitgraph.torch.aten_ops.layers import native_group_norm as native_group_norm
from jitgraph.torch.aten_ops.layers import native_layer_norm as native_layer_norm
from jitgraph.torch.aten_ops.layers import pairwise_distance as pairwise_distance
from jitgraph.torch.aten_ops.layers import prelu as prelu  # method
from jitgraph.torch.aten_ops.layers import relu as relu  # method in_place
from jitgraph.torch.aten_ops.layers import renorm as renorm  # method in_place
from jitgraph.torch.aten_ops.layers import rms_norm as rms_norm
from jitgraph.torch.aten_ops.layers import rnn_relu_cell as rnn_relu_cell
from jitgraph.torch.aten_ops.layers import rnn_tanh_cell as rnn_tanh_cell
from jitgraph.torch.aten_ops.layers import selu as selu  # in_place
from jitgraph.torch.aten_ops.layers import sigmoid as sigmoid  # method in_place
from jitgraph.torch.aten_ops.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from jitgraph.torch.aten_ops.losses import cosine_embedding_loss as cosine_embedding_loss
from jitgraph.torch.aten_ops.losses import ctc_loss as ctc_loss
from jitgraph.torch.aten_ops.losses import hinge_embedding_loss as hinge_embedding_loss
from jitgraph.torch.aten_ops.losses import kl_div as kl_div
from jitgraph.torch.aten_ops.losses import margin_ranking_loss as margin_ranking_loss
from jitgraph.torch.aten_ops.losses import poisson_nll_loss as poisson_nll_loss
from jitgraph.torch.aten_ops.losses import triplet_margin_loss as triplet_margin_loss
from jitgraph.torch.aten_ops.movement import alias_copy as alias_copy
from jitgraph.torch.aten_ops.movement import channel_shuffle as channel_shuffle
from jitgraph.torch.aten_ops.movement import constant_pad_nd as constant_pad_nd
from jitgraph.torch.aten_ops.movement import detach_copy as detach_copy
from jitgraph.torch.aten_ops.movement import diag as diag  # method
from jitgraph.torch.aten_ops.movement import diag_embed as diag_embed  # method
from jitgraph.torch.aten_ops.movement import diagflat as diagflat  # method
from jitgraph.torch.aten_ops.movement import diagonal_copy as diagonal_copy
from jitgraph.torch.aten_ops.movement import diagonal_scatter as diagonal_scatter  # method
from jitgraph.torch.aten_ops.movement import expand_copy as expand_copy
from jitgraph.torch.aten_ops.movement import fliplr as fliplr  # method
from jitgraph.torch.aten_ops.movement import flipud as flipud  # method
from jitgraph.torch.aten_ops.movement import narrow_copy as narrow_copy  # method
from jitgraph.torch.aten_ops.movement import permute_copy as permute_copy
from jitgraph.torch.aten_ops.movement import pixel_shuffle as pixel_shuffle
from jitgraph.torch.aten_ops.movement import pixel_unshuffle as pixel_unshuffle
from jitgraph.torch.aten_ops.movement import select_copy as select_copy
from jitgraph.torch.aten_ops.movement import select_scatter as select_scatter  # method
from jitgraph.torch.aten_ops.movement import slice_copy as slice_copy
from jitgraph.torch.aten_ops.movement import slice_scatter as slice_scatter  # method
from jitgraph.torch.aten_ops.movement import split_copy as split_copy
from jitgraph.torch.aten_ops.movement import split_with_sizes_copy as split_with_sizes_copy
from jitgraph.torch.aten_ops.movement import t_copy as t_copy
from jitgraph.torch.aten_ops.movement import transpose_copy as transpose_copy
from jitgraph.torch.aten_ops.movement import tril as tril  # method in_place
from jitgraph.torch.aten_ops.movement import triu as triu  # method in_place
from jitgraph.torch.aten_ops.movement import unbind_copy as unbind_copy
from jitgraph.torch.aten_ops.movement import unsqueeze_copy as unsqueeze_copy
from jitgraph.torch.aten_ops.pointwise import abs as abs  # method in_place
from jitgraph.torch.aten_ops.pointwise import absolute as absolute  # method in_place
from jitgraph.torch.aten_ops.pointwise import acos as acos  # method in_place
from jitgraph.torch.aten_ops.pointwise import acosh as acosh  # method in_place
from jitgraph.torch.aten_ops.pointwise import add as add  # method in_place
from jitgraph.torch.aten_ops.pointwise import addcdiv as addcdiv  # method in_place
from jitgraph.torch.aten_ops.pointwise import addcmul as addcmul  # method in_place
from jitgraph.torch.aten_ops.pointwise import angle as angle  # method
from jitgraph.torch.aten_ops.pointwise import arccos as arccos  # method in_place
from jitgraph.torch.aten_ops.pointwise import arccosh as arccosh  # method in_place
from jitgraph.torch.aten_ops.pointwise import arcsin as arcsin  # method in_place
from jitgraph.torch.aten_ops.pointwise import arcsinh as arcsinh  # method in_place
from jitgraph.torch.aten_ops.pointwise import arctan as arctan  # method in_place
from jitgraph.torch.aten_ops.pointwise import arctan2 as arctan2  # method in_place
from jitgraph.torch.aten_ops.pointwise import arctanh as arctanh  # method in_place
from jitgraph.torch.aten_ops.pointwise import asin as asin  # method in_place
from jitgraph.torch.aten_ops.pointwise import asinh as asinh  # method in_place
from jitgraph.torch.aten_ops.pointwise import atan as atan  # method in_place
from jitgraph.torch.aten_ops.pointwise import atan2 as atan2  # method in_place
from jitgraph.torch.aten_ops.pointwise import atanh as atanh  # method in_place
from jitgraph.torch.aten_ops.pointwise import bitwise_and as bitwise_and  # method in_place
from jitgraph.torch.aten_ops.pointwise import bitwise_left_shift as bitwise_left_shift  # method in_place
from jitgraph.torch.aten_ops.pointwise import bitwise_not as bitwise_not  # method in_place
from jitgraph.torch.aten_ops.pointwise import bitwise_or as bitwise_or  # method in_place
from jitgraph.torch.aten_ops.pointwise import bitwise_right_shift as bitwise_right_shift  # method in_place
from jitgraph.torch.aten_ops.pointwise import bitwise_xor as bitwise_xor  # method in_place
from jitgraph.torch.aten_ops.pointwise import ceil as ceil  # method in_place
from jitgraph.torch.aten_ops.pointwise import clamp_max as clamp_max  # method in_place
from jitgraph.torch.aten_ops.pointwise import clamp_min as clamp_min  # method in_place
from jitgraph.torch.aten_ops.pointwise import copysign as copysign  # method in_place
from jitgraph.torch.aten_ops.pointwise import cos as cos  # method in_place
from jitgraph.torch.aten_ops.pointwise import cosh as cosh  # method in_place
from jitgraph.torch.aten_ops.pointwise import deg2rad as deg2rad  # method in_place
from jitgraph.torch.aten_ops.pointwise import digamma as digamma  # method in_place
from jitgraph.torch.aten_ops.pointwise import div as div  # method in_place
from jitgraph.torch.aten_ops.pointwise import divide as divide  # method in_place
from jitgraph.torch.aten_ops.pointwise import eq as eq  # method in_place
from jitgraph.torch.aten_ops.pointwise import erf as erf  # method in_place
from jitgraph.torch.aten_ops.pointwise import erfc as erfc  # method in_place
from jitgraph.torch.aten_ops.pointwise import erfinv as erfinv  # method in_place
from jitgraph.torch.aten_ops.pointwise import exp as exp  # method in_place
from jitgraph.torch.aten_ops.pointwise import exp2 as exp2  # method in_place
from jitgraph.torch.aten_ops.pointwise import expm1 as expm1  # method in_place
from jitgraph.torch.aten_ops.pointwise import fix as fix  # method in_place
from jitgraph.torch.aten_ops.pointwise import float_power as float_power  # method
from jitgraph.torch.aten_ops.pointwise import floor as floor  # method in_place
from jitgraph.torch.aten_ops.pointwise import floor_divide as floor_divide  # method in_place
from jitgraph.torch.aten_ops.pointwise import fmax as fmax  # method
from jitgraph.torch.aten_ops.pointwise import fmin as fmin  # method
from jitgraph.torch.aten_ops.pointwise import fmod as fmod  # method in_place
from jitgraph.torch.aten_ops.pointwise import frac as frac  # method in_place
from jitgraph.torch.aten_ops.pointwise import gcd as gcd  # method in_place
from jitgraph.torch.aten_ops.pointwise import ge as ge  # method in_place
from jitgraph.torch.aten_ops.pointwise import greater as greater  # method in_place
from jitgraph.torch.aten_ops.pointwise import greater_equal as greater_equal  # method in_place
from jitgraph.torch.aten_ops.pointwise import gt as gt  # method in_place
from jitgraph.torch.aten_ops.pointwise import heaviside as heaviside  # method in_place
from jitgraph.torch.aten_ops.pointwise import hypot as hypot  # method in_place
from jitgraph.torch.aten_ops.pointwise import i0 as i0  # method in_place
from jitgraph.torch.aten_ops.pointwise import igamma as igamma  # method in_place
from jitgraph.torch.aten_ops.pointwise import igammac as igammac  # method in_place
from jitgraph.torch.aten_ops.pointwise import isclose as isclose  # method
from jitgraph.torch.aten_ops.pointwise import isfinite as isfinite  # method
from jitgraph.torch.aten_ops.pointwise import isinf as isinf  # method
from jitgraph.torch.aten_ops.pointwise import isnan as isnan  # method
from jitgraph.torch.aten_ops.pointwise import isneginf as isneginf  # method
from jitgraph.torch.aten_ops.pointwise import isposinf as isposinf  # method
from jitgraph.torch.aten_ops.pointwise import isreal as isreal  # method
from jitgraph.torch.aten_ops.pointwise import lcm as lcm  # method in_place
from jitgraph.torch.aten_ops.pointwise import ldexp as ldexp  # method in_place
from jitgraph.torch.aten_ops.pointwise import le as le  # method in_place
from jitgraph.torch.aten_ops.pointwise import lerp as lerp  # method in_place
from jitgraph.torch.aten_ops.pointwise import less as less  # method in_place
from jitgraph.torch.aten_ops.pointwise import less_equal as less_equal  # method in_place
from jitgraph.torch.aten_ops.pointwise import lgamma as lgamma  # method in_place
from jitgraph.torch.aten_ops.pointwise import log as log  # method in_place
from jitgraph.torch.aten_ops.pointwise import log1p as log1p  # method in_place
from jitgraph.torch.aten_ops.pointwise import log2 as log2  # method in_place
from jitgraph.torch.aten_ops.pointwise import log10 as log10  # method in_place
from jitgraph.torch.aten_ops.pointwise import logaddexp as logaddexp  # method
from jitgraph.torch.aten_ops.pointwise import logaddexp2 as logaddexp2  # method
from jitgraph.torch.aten_ops.pointwise import logical_and as logical_and  # method in_place
from jitgraph.torch.aten_ops.pointwise import logical_not as logical_not  # method in_place
from jitgraph.torch.aten_ops.pointwise import logical_or as logical_or  # method in_place
from jitgraph.torch.aten_ops.pointwise import logical_xor as logical_xor  # method in_place
from jitgraph.torch.aten_ops.pointwise import logit as logit  # method in_place
from jitgraph.torch.aten_ops.pointwise import lt as lt  # method in_place
from jitgraph.torch.aten_ops.pointwise import maximum as maximum  # method
from jitgraph.torch.aten_ops.pointwise import minimum as minimum  # method
from jitgraph.torch.aten_ops.pointwise import mul as mul  # method in_place
from jitgraph.torch.aten_ops.pointwise import multiply as multiply  # method in_place
from jitgraph.torch.aten_ops.pointwise import mvlgamma as mvlgamma  # method in_place
from jitgraph.torch.aten_ops.pointwise import nan_to_num as nan_to_num  # method in_place
from jitgraph.torch.aten_ops.pointwise import ne as ne  # method in_place
from jitgraph.torch.aten_ops.pointwise import neg as neg  # method in_place
from jitgraph.torch.aten_ops.pointwise import negative as negative  # method in_place
from jitgraph.torch.aten_ops.pointwise import nextafter as nextafter  # method in_place
from jitgraph.torch.aten_ops.pointwise import not_equal as not_equal  # method in_place
from jitgraph.torch.aten_ops.pointwise import polar as polar
from jitgraph.torch.aten_ops.pointwise import pow as pow  # method in_place
from jitgraph.torch.aten_ops.pointwise import rad2deg as rad2deg  # method in_place
from jitgraph.torch.aten_ops.pointwise import reciprocal as reciprocal  # method in_place
from jitgraph.torch.aten_ops.pointwise import remainder as remainder  # method in_place
from jitgraph.torch.aten_ops.pointwise import round as round  # method in_place
from jitgraph.torch.aten_ops.pointwise import rsqrt as rsqrt  # method in_place
from jitgraph.torch.aten_ops.pointwise import rsub as rsub
from jitgraph.torch.aten_ops.pointwise import sgn as sgn  # method in_place
from jitgraph.torch.aten_ops.pointwise import sign as sign  # method in_place
from jitgraph.torch.aten_ops.pointwise import signbit as signbit  # method
from jitgraph.torch.aten_ops.pointwise import sin as sin  # method in_place
from jitgraph.torch.aten_ops.pointwise import sinc as sinc  # method in_place
from jitgraph.torch.aten_ops.pointwise import sinh as sinh  # method in_place
from jitgraph.torch.aten_ops.pointwise import sqrt as sqrt  # method in_place
from jitgraph.torch.aten_ops.pointwise import square as square  # method in_place
from jitgraph.torch.aten_ops.pointwise import sub as sub  # method in_place
from jitgraph.torch.aten_ops.pointwise import subtract as subtract  # method in_place
from jitgraph.torch.aten_ops.pointwise import tan as tan  # method in_place
from jitgraph.torch.aten_ops.pointwise import tanh as tanh  # method in_place
from jitgraph.torch.aten_ops.pointwise import threshold as threshold  # in_place
from jitgraph.torch.aten_ops.pointwise import true_divide as true_divide  # method in_place
from jitgraph.torch.aten_ops.pointwise import trunc as trunc  # method in_place
from jitgraph.torch.aten_ops.pointwise import xlogy as xlogy  # method in_place
from jitgraph.torch.aten_ops.products import addbmm as addbmm  # method in_place
from jitgraph.torch.aten_ops.products import addmm as addmm  # method in_place
from jitgraph.torch.aten_ops.products import addmv as addmv  # method in_place
from jitgraph.torch.aten_ops.products import addr as addr  # method in_place
from jitgraph.torch.aten_ops.products import baddbmm as baddbmm  # method in_place
from jitgraph.torch.aten_ops.products import bilinear as bilinear
from jitgraph.torch.aten_ops.products import bmm as bmm  # method
from jitgraph.torch.aten_ops.products import cdist as cdist
from jitgraph.torch.aten_ops.products import cholesky as cholesky  # method
from jitgraph.torch.aten_ops.products import cholesky_inverse as cholesky_inverse  # method
from jitgraph.torch.aten_ops.products import cholesky_solve as cholesky_solve  # method
from jitgraph.torch.aten_ops.products import cross as cross  # method
from jitgraph.torch.aten_ops.products import det as det  # method
from jitgraph.torch.aten_ops.products import dot as dot  # method
from jitgraph.torch.aten_ops.products import ger as ger  # method
from jitgraph.torch.aten_ops.products import inner as inner  # method
from jitgraph.torch.aten_ops.products import inverse as inverse  # method
from jitgraph.torch.aten_ops.products import kron as kron  # method
from jitgraph.torch.aten_ops.products import logdet as logdet  # method
from jitgraph.torch.aten_ops.products import matmul as matmul  # method
from jitgraph.torch.aten_ops.products import matrix_exp as matrix_exp  # method
from jitgraph.torch.aten_ops.products import matrix_power as matrix_power  # method
from jitgraph.torch.aten_ops.products import mm as mm  # method
from jitgraph.torch.aten_ops.products import mv as mv  # method
from jitgraph.torch.aten_ops.products import outer as outer  # method
from jitgraph.torch.aten_ops.products import pdist as pdist
from jitgraph.torch.aten_ops.products import vdot as vdot  # method
from jitgraph.torch.aten_ops.reductions import all as all  # method
from jitgraph.torch.aten_ops.reductions import amax as amax  # method
from jitgraph.torch.aten_ops.reductions import amin as amin  # method
from jitgraph.torch.aten_ops.reductions import any as any  # method
from jitgraph.torch.aten_ops.reductions import argmax as argmax  # method
from jitgraph.torch.aten_ops.reductions import argmin as argmin  # method
from jitgraph.torch.aten_ops.reductions import bincount as bincount  # method
from jitgraph.torch.aten_ops.reductions import count_nonzero as count_nonzero  # method
from jitgraph.torch.aten_ops.reductions import cumprod as cumprod  # method in_place
from jitgraph.torch.aten_ops.reductions import cumsum as cumsum  # method in_place
from jitgraph.torch.aten_ops.reductions import diff as diff  # method
from jitgraph.torch.aten_ops.reductions import dist as dist  # method
from jitgraph.torch.aten_ops.reductions import histc as histc  # method
from jitgraph.torch.aten_ops.reductions import log_softmax as log_softmax  # method
from jitgraph.torch.aten_ops.reductions import logcumsumexp as logcumsumexp  # method
from jitgraph.torch.aten_ops.reductions import logsumexp as logsumexp  # method
from jitgraph.torch.aten_ops.reductions import mean as mean  # method
from jitgraph.torch.aten_ops.reductions import msort as msort  # method
from jitgraph.torch.aten_ops.reductions import nanmean as nanmean  # method
from jitgraph.torch.aten_ops.reductions import nansum as nansum  # method
from jitgraph.torch.aten_ops.reductions import softmax as softmax  # method
from jitgraph.torch.aten_ops.reductions import sum as sum  # method
from jitgraph.torch.aten_ops.reductions import trace as trace  # method
from jitgraph.torch.functions.control import cond as cond
from jitgraph.torch.functions.control import while_loop as while_loop
from jitgraph.torch.functions.creation import arange as arange
from jitgraph.torch.functions.creation import as_tensor as as_tensor
from jitgraph.torch.functions.creation import asarray as asarray
from jitgraph.torch.functions.creation import bartlett_window as bartlett_window
from jitgraph.torch.functions.creation import blackman_window as blackman_window
from jitgraph.torch.functions.creation import empty as empty
from jitgraph.torch.functions.creation import empty_like as empty_like
from jitgraph.torch.functions.creation import empty_permuted as empty_permuted
from jitgraph.torch.functions.creation import empty_strided as empty_strided
from jitgraph.torch.functions.creation import eye as eye
from jitgraph.torch.functions.creation import fill as fill
from jitgraph.torch.functions.creation import from_dlpack as from_dlpack
from jitgraph.torch.functions.creation import from_file as from_file
from jitgraph.torch.functions.creation import from_numpy as from_numpy
from jitgraph.torch.functions.creation import frombuffer as frombuffer
from jitgraph.torch.functions.creation import full as full
from jitgraph.torch.functions.creation import full_like as full_like
from jitgraph.torch.functions.creation import hamming_window as hamming_window
from jitgraph.torch.functions.creation import hann_window as hann_window
from jitgraph.torch.functions.creation import kaiser_window as kaiser_window
from jitgraph.torch.functions.creation import linspace as linspace
from jitgraph.torch.functions.creation import logspace as logspace
from jitgraph.torch.functions.creation import ones as ones
from jitgraph.torch.functions.creation import ones_like as ones_like
from jitgraph.torch.functions.creation import range as range
from jitgraph.torch.functions.creation import scalar_tensor as scalar_tensor
from jitgraph.torch.functions.creation import tensor as tensor
from jitgraph.torch.functions.creation import to_dlpack as to_dlpack
from jitgraph.torch.functions.creation import tril_indices as tril_indices
from jitgraph.torch.functions.creation import triu_indices as triu_indices
from jitgraph.torch.functions.creation import vander as vander
from jitgraph.torch.functions.creation import zeros as zeros
from jitgraph.torch.functions.creation import zeros_like as zeros_like
from jitgraph.torch.functions.draws import bernoulli as bernoulli  # method
from jitgraph.torch.functions.draws import binomial as binomial
from jitgraph.torch.functions.draws import multinomial as multinomial  # method
from jitgraph.torch.functions.draws import normal as normal
from jitgraph.torch.functions.draws import poisson as poisson
from jitgraph.torch.functions.draws import rand as rand
from jitgraph.torch.functions.draws import rand_like as rand_like
from jitgraph.torch.functions.draws import randint as randint
from jitgraph.torch.functions.draws import randint_like as randint_like
from jitgraph.torch.functions.draws import randn as randn
from jitgraph.torch.functions.draws import randn_like as randn_like
from jitgraph.torch.functions.draws import randperm as randperm
from jitgraph.torch.functions.indexing import argwhere as argwhere  # method
from jitgraph.torch.functions.indexing import gather as gather  # method
from jitgraph.torch.functions.indexing import index_put as index_put  # method in_place
from jitgraph.torch.functions.indexing import isin as isin
from jitgraph.torch.functions.indexing import masked_fill as masked_fill  # method in_place
from jitgraph.torch.functions.indexing import masked_scatter as masked_scatter  # method in_place
from jitgraph.torch.functions.indexing import nonzero as nonzero  # method
from jitgraph.torch.functions.indexing import nonzero_static as nonzero_static  # method
from jitgraph.torch.functions.indexing import scatter as scatter  # method in_place
from jitgraph.torch.functions.indexing import scatter_reduce as scatter_reduce  # method in_place
from jitgraph.torch.functions.indexing import take as take  # method
from jitgraph.torch.functions.indexing import take_along_dim as take_along_dim  # method
from jitgraph.torch.functions.indexing import where as where
from jitgraph.torch.functions.joining import as_strided_copy as as_strided_copy
from jitgraph.torch.functions.joining import as_strided_scatter as as_strided_scatter  # method
from jitgraph.torch.functions.joining import atleast_1d as atleast_1d
from jitgraph.torch.functions.joining import atleast_2d as atleast_2d
from jitgraph.torch.functions.joining import atleast_3d as atleast_3d
from jitgraph.torch.functions.joining import block_diag as block_diag
from jitgraph.torch.functions.joining import broadcast_shapes as broadcast_shapes
from jitgraph.torch.functions.joining import broadcast_tensors as broadcast_tensors
from jitgraph.torch.functions.joining import cartesian_prod as cartesian_prod
from jitgraph.torch.functions.joining import cat as cat
from jitgraph.torch.functions.joining import chain_matmul as chain_matmul
from jitgraph.torch.functions.joining import column_stack as column_stack
from jitgraph.torch.functions.joining import combinations as combinations
from jitgraph.torch.functions.joining import concat as concat
from jitgraph.torch.functions.joining import concatenate as concatenate
from jitgraph.torch.functions.joining import dstack as dstack
from jitgraph.torch.functions.joining import einsum as einsum
from jitgraph.torch.functions.joining import flip as flip  # method
from jitgraph.torch.functions.joining import hstack as hstack
from jitgraph.torch.functions.joining import meshgrid as meshgrid
from jitgraph.torch.functions.joining import repeat_interleave as repeat_interleave  # method
from jitgraph.torch.functions.joining import roll as roll  # method
from jitgraph.torch.functions.joining import rot90 as rot90  # method
from jitgraph.torch.functions.joining import row_stack as row_stack
from jitgraph.torch.functions.joining import squeeze_copy as squeeze_copy
from jitgraph.torch.functions.joining import stack as stack
from jitgraph.torch.functions.joining import tensordot as tensordot
from jitgraph.torch.functions.joining import tile as tile  # method
from jitgraph.torch.functions.joining import unfold_copy as unfold_copy
from jitgraph.torch.functions.joining import unravel_index as unravel_index
from jitgraph.torch.functions.joining import unsafe_chunk as unsafe_chunk  # method
from jitgraph.torch.functions.joining import unsafe_split as unsafe_split  # method
from jitgraph.torch.functions.joining import unsafe_split_with_sizes as unsafe_split_with_sizes  # method
from jitgraph.torch.functions.joining import view_as_complex_copy as view_as_complex_copy
from jitgraph.torch.functions.joining import view_as_real_copy as view_as_real_copy
from jitgraph.torch.functions.joining import view_copy as view_copy
from jitgraph.torch.functions.joining import vstack as vstack
from jitgraph.torch.functions.layers import embedding_renorm_ as embedding_renorm_
from jitgraph.torch.functions.layers import gru as gru
from jitgraph.torch.functions.layers import lstm as lstm
from jitgraph.torch.functions.layers import native_channel_shuffle as native_channel_shuffle
from jitgraph.torch.functions.layers import rnn_relu as rnn_relu
from jitgraph.torch.functions.layers import rnn_tanh as rnn_tanh
from jitgraph.torch.functions.linear_algebra import geqrf as geqrf  # method
from jitgraph.torch.functions.linear_algebra import lu as lu  # method
from jitgraph.torch.functions.linear_algebra import lu_solve as lu_solve  # method
from jitgraph.torch.functions.linear_algebra import lu_unpack as lu_unpack
from jitgraph.torch.functions.linear_algebra import orgqr as orgqr  # method
from jitgraph.torch.functions.linear_algebra import ormqr as ormqr  # method
from jitgraph.torch.functions.linear_algebra import pca_lowrank as pca_lowrank
from jitgraph.torch.functions.linear_algebra import pinverse as pinverse  # method
from jitgraph.torch.functions.linear_algebra import qr as qr  # method
from jitgraph.torch.functions.linear_algebra import slogdet as slogdet  # method
from jitgraph.torch.functions.linear_algebra import svd as svd  # method
from jitgraph.torch.functions.linear_algebra import svd_lowrank as svd_lowrank
from jitgraph.torch.functions.linear_algebra import triangular_solve as triangular_solve  # method
from jitgraph.torch.functions.pointwise import clamp as clamp  # method in_place
from jitgraph.torch.functions.pointwise import clip as clip  # method in_place
from jitgraph.torch.functions.pointwise import complex as complex
from jitgraph.torch.functions.pointwise import conj as conj  # method
from jitgraph.torch.functions.pointwise import conj_physical as conj_physical  # method in_place
from jitgraph.torch.functions.pointwise import detach as detach
from jitgraph.torch.functions.pointwise import detach_ as detach_
from jitgraph.torch.functions.pointwise import float_power_ as float_power_  # method
from jitgraph.torch.functions.pointwise import frexp as frexp  # method
from jitgraph.torch.functions.pointwise import imag as imag
from jitgraph.torch.functions.pointwise import polygamma as polygamma
from jitgraph.torch.functions.pointwise import positive as positive  # method
from jitgraph.torch.functions.pointwise import real as real
from jitgraph.torch.functions.pointwise import resolve_conj as resolve_conj  # method
from jitgraph.torch.functions.pointwise import resolve_neg as resolve_neg  # method
from jitgraph.torch.functions.queries import get_device as get_device
from jitgraph.torch.functions.queries import get_num_interop_threads as get_num_interop_threads
from jitgraph.torch.functions.queries import get_num_threads as get_num_threads
from jitgraph.torch.functions.queries import is_complex as is_complex
from jitgraph.torch.functions.queries import is_conj as is_conj  # method
from jitgraph.torch.functions.queries import is_distributed as is_distributed  # method
from jitgraph.torch.functions.queries import is_floating_point as is_floating_point
from jitgraph.torch.functions.queries import is_inference as is_inference  # method
from jitgraph.torch.functions.queries import is_neg as is_neg  # method
from jitgraph.torch.functions.queries import is_same_size as is_same_size  # method
from jitgraph.torch.functions.queries import is_signed as is_signed
from jitgraph.torch.functions.queries import is_storage as is_storage
from jitgraph.torch.functions.queries import is_tensor as is_tensor
from jitgraph.torch.functions.queries import promote_types as promote_types
from jitgraph.torch.functions.queries import result_type as result_type
from jitgraph.torch.functions.queries import set_num_interop_threads as set_num_interop_threads
from jitgraph.torch.functions.queries import set_num_threads as set_num_threads
from jitgraph.torch.functions.queries import typename as typename
from jitgraph.torch.functions.reductions import allclose as allclose  # method
from jitgraph.torch.functions.reductions import aminmax as aminmax  # method
from jitgraph.torch.functions.reductions import argsort as argsort  # method
from jitgraph.torch.functions.reductions import corrcoef as corrcoef  # method
from jitgraph.torch.functions.reductions import cov as cov  # method
from jitgraph.torch.functions.reductions import cummax as cummax  # method
from jitgraph.torch.functions.reductions import cummin as cummin  # method
from jitgraph.torch.functions.reductions import cumulative_trapezoid as cumulative_trapezoid
from jitgraph.torch.functions.reductions import equal as equal  # method
from jitgraph.torch.functions.reductions import frobenius_norm as frobenius_norm
from jitgraph.torch.functions.reductions import gradient as gradient
from jitgraph.torch.functions.reductions import histogram as histogram  # method
from jitgraph.torch.functions.reductions import histogramdd as histogramdd
from jitgraph.torch.functions.reductions import is_nonzero as is_nonzero  # method
from jitgraph.torch.functions.reductions import kthvalue as kthvalue  # method
from jitgraph.torch.functions.reductions import max as max  # method
from jitgraph.torch.functions.reductions import median as median  # method
from jitgraph.torch.functions.reductions import min as min  # method
from jitgraph.torch.functions.reductions import mode as mode  # method
from jitgraph.torch.functions.reductions import nanmedian as nanmedian  # method
from jitgraph.torch.functions.reductions import nanquantile as nanquantile  # method
from jitgraph.torch.functions.reductions import norm as norm  # method
from jitgraph.torch.functions.reductions import norm_except_dim as norm_except_dim
from jitgraph.torch.functions.reductions import nuclear_norm as nuclear_norm
from jitgraph.torch.functions.reductions import prod as prod  # method
from jitgraph.torch.functions.reductions import quantile as quantile  # method
from jitgraph.torch.functions.reductions import segment_reduce as segment_reduce
from jitgraph.torch.functions.reductions import sort as sort  # method
from jitgraph.torch.functions.reductions import std as std  # method
from jitgraph.torch.functions.reductions import std_mean as std_mean
from jitgraph.torch.functions.reductions import topk as topk  # method
from jitgraph.torch.functions.reductions import trapezoid as trapezoid
from jitgraph.torch.functions.reductions import trapz as trapz
from jitgraph.torch.functions.reductions import unique as unique  # method
from jitgraph.torch.functions.reductions import unique_consecutive as unique_consecutive  # method
from jitgraph.torch.functions.reductions import var as var  # method
from jitgraph.torch.functions.reductions import var_mean as var_mean
from jitgraph.torch.functions.spectra import istft as istft  # method
from jitgraph.torch.functions.spectra import stft as stft  # method
from jitgraph.torch.functions.views import adjoint as adjoint  # method
from jitgraph.torch.functions.views import as_strided as as_strided  # method
from jitgraph.torch.functions.views import broadcast_to as broadcast_to  # method
from jitgraph.torch.functions.views import chunk as chunk  # method
from jitgraph.torch.functions.views import clone as clone  # method
from jitgraph.torch.functions.views import diagonal as diagonal  # method
from jitgraph.torch.functions.views import dsplit as dsplit  # method
from jitgraph.torch.functions.views import flatten as flatten  # method
from jitgraph.torch.functions.views import hsplit as hsplit  # method
from jitgraph.torch.functions.views import moveaxis as moveaxis  # method
from jitgraph.torch.functions.views import movedim as movedim  # method
from jitgraph.torch.functions.views import narrow as narrow  # method
from jitgraph.torch.functions.views import numel as numel
from jitgraph.torch.functions.views import permute as permute  # method
from jitgraph.torch.functions.views import ravel as ravel  # method
from jitgraph.torch.functions.views import reshape as reshape  # method
from jitgraph.torch.functions.views import select as select  # method
from jitgraph.torch.functions.views import split as split  # method
from jitgraph.torch.functions.views import split_with_sizes as split_with_sizes  # method
from jitgraph.torch.functions.views import squeeze as squeeze  # method
from jitgraph.torch.functions.views import swapaxes as swapaxes  # method
from jitgraph.torch.functions.views import swapdims as swapdims  # method
from jitgraph.torch.functions.views import t as t  # method
from jitgraph.torch.functions.views import tensor_split as tensor_split  # method
from jitgraph.torch.functions.views import transpose as transpose  # method
from jitgraph.torch.functions.views import unbind as unbind  # method
from jitgraph.torch.functions.views import unflatten as unflatten  # method
from jitgraph.torch.functions.views import unsqueeze as unsqueeze  # method
from jitgraph.torch.functions.views import view_as_complex as view_as_complex
from jitgraph.torch.functions.views import view_as_real as view_as_real  # method
from jitgraph.torch.functions.views import vsplit as vsplit  # method
from jitgraph.torch.methods.writes import as_strided_ as as_strided_
from jitgraph.torch.methods.writes import fill_ as fill_
from jitgraph.torch.methods.writes import resize_as_ as resize_as_
from jitgraph.torch.methods.writes import zero_ as zero_
