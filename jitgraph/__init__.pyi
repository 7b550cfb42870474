"""The public names of ``jitgraph``, and where each is defined."""

from typing import Any, Final

from jitgraph import amp as amp
from jitgraph import autograd as autograd
from jitgraph import cache as cache
from jitgraph import cuda as cuda
from jitgraph import data as data
from jitgraph import debug as debug
from jitgraph import errors as errors
from jitgraph import fft as fft
from jitgraph import ir as ir
from jitgraph import linalg as linalg
from jitgraph import nn as nn
from jitgraph import onnx as onnx
from jitgraph import optim as optim
from jitgraph import profiler as profiler
from jitgraph import random as random
from jitgraph import runtime as runtime
from jitgraph import special as special
from jitgraph import tree as tree
from jitgraph.autograd import detect_anomaly as detect_anomaly
from jitgraph.autograd import enable_grad as enable_grad
from jitgraph.autograd import no_grad as no_grad
from jitgraph.autograd import set_grad_enabled as set_grad_enabled
from jitgraph.autograd.functional_call import functional_call as functional_call
from jitgraph.autograd.transforms import grad as grad
from jitgraph.autograd.transforms import jvp as jvp
from jitgraph.autograd.transforms import value_and_grad as value_and_grad
from jitgraph.autograd.transforms import vjp as vjp
from jitgraph.checkpoints import load_checkpoint as load_checkpoint
from jitgraph.checkpoints import save_checkpoint as save_checkpoint
from jitgraph.dtypes import bfloat16 as bfloat16
from jitgraph.dtypes import bool_
from jitgraph.dtypes import complex64 as complex64
from jitgraph.dtypes import complex128 as complex128
from jitgraph.dtypes import float16 as float16
from jitgraph.dtypes import float32 as float32
from jitgraph.dtypes import float64 as float64
from jitgraph.dtypes import int8 as int8
from jitgraph.dtypes import int16 as int16
from jitgraph.dtypes import int32 as int32
from jitgraph.dtypes import int64 as int64
from jitgraph.dtypes import uint8 as uint8
from jitgraph.dtypes import uint16 as uint16
from jitgraph.dtypes import uint32 as uint32
from jitgraph.dtypes import uint64 as uint64
from jitgraph.errors import AnomalyError as AnomalyError
from jitgraph.errors import ArgumentError as ArgumentError
from jitgraph.errors import CompileError as CompileError
from jitgraph.errors import CudaError as CudaError
from jitgraph.errors import DeviceError as DeviceError
from jitgraph.errors import DTypeError as DTypeError
from jitgraph.errors import GraphError as GraphError
from jitgraph.errors import HostAccessError as HostAccessError
from jitgraph.errors import IndexingError as IndexingError
from jitgraph.errors import InternalError as InternalError
from jitgraph.errors import JitgraphError as JitgraphError
from jitgraph.errors import LinAlgError as LinAlgError
from jitgraph.errors import LoadError as LoadError
from jitgraph.errors import NumberError as NumberError
from jitgraph.errors import OptionError as OptionError
from jitgraph.errors import OutOfMemoryError as OutOfMemoryError
from jitgraph.errors import PrecisionWarning as PrecisionWarning
from jitgraph.errors import ScriptError as ScriptError
from jitgraph.errors import ShapeError as ShapeError
from jitgraph.errors import SharingError as SharingError
from jitgraph.errors import TraceError as TraceError
from jitgraph.errors import UndecidedError as UndecidedError
from jitgraph.errors import UnsupportedOp as UnsupportedOp
from jitgraph.linalg.polynomials import poly as poly
from jitgraph.linalg.polynomials import polyadd as polyadd
from jitgraph.linalg.polynomials import polyder as polyder
from jitgraph.linalg.polynomials import polydiv as polydiv
from jitgraph.linalg.polynomials import polyfit as polyfit
from jitgraph.linalg.polynomials import polyint as polyint
from jitgraph.linalg.polynomials import polymul as polymul
from jitgraph.linalg.polynomials import polysub as polysub
from jitgraph.linalg.polynomials import polyval as polyval
from jitgraph.linalg.polynomials import roots as roots
from jitgraph.native import native_function as native_function
from jitgraph.random import Generator as Generator
from jitgraph.random import bernoulli as bernoulli
from jitgraph.random import binomial as binomial
from jitgraph.random import multinomial as multinomial
from jitgraph.random import poisson as poisson
from jitgraph.random.forms import rand as rand
from jitgraph.random.forms import rand_like as rand_like
from jitgraph.random.forms import randint as randint
from jitgraph.random.forms import randint_like as randint_like
from jitgraph.random.forms import randn as randn
from jitgraph.random.forms import randn_like as randn_like
from jitgraph.random.forms import randperm as randperm
from jitgraph.runtime.threads import get_num_threads as get_num_threads
from jitgraph.runtime.threads import set_num_threads as set_num_threads
from jitgraph.saved import load as load
from jitgraph.saved import load_state as load_state
from jitgraph.saved import save as save
from jitgraph.spectra import istft as istft
from jitgraph.spectra import stft as stft
from jitgraph.tensor import Tensor as Tensor
from jitgraph.tensor.custom import custom_op as custom_op
from jitgraph.tensor.dtype_queries import can_cast as can_cast
from jitgraph.tensor.dtype_queries import finfo as finfo
from jitgraph.tensor.dtype_queries import iinfo as iinfo
from jitgraph.tensor.dtype_queries import isdtype as isdtype
from jitgraph.tensor.dtype_queries import result_type as result_type
from jitgraph.tensor.functions import *
from jitgraph.tensor.products import addbmm as addbmm
from jitgraph.tensor.products import addmm as addmm
from jitgraph.tensor.products import addmv as addmv
from jitgraph.tensor.products import addr as addr
from jitgraph.tensor.products import baddbmm as baddbmm
from jitgraph.tensor.products import bmm as bmm
from jitgraph.tensor.products import chain_matmul as chain_matmul
from jitgraph.tensor.products import dot as dot
from jitgraph.tensor.products import einsum as einsum
from jitgraph.tensor.products import inner as inner
from jitgraph.tensor.products import kron as kron
from jitgraph.tensor.products import mm as mm
from jitgraph.tensor.products import mv as mv
from jitgraph.tensor.products import vdot as vdot
from jitgraph.torch.export.module import from_torch as from_torch
from jitgraph.tracing.call.arguments import TensorSpec as TensorSpec
from jitgraph.tracing.call.function import trace as trace
from jitgraph.tracing.record.control_flow import cond as cond
from jitgraph.tracing.record.control_flow import scan as scan
from jitgraph.tracing.record.control_flow import while_loop as while_loop
from jitgraph.tracing.report.explain import explain as explain
from jitgraph.tracing.script import script as script
from jitgraph.transforms.custom import custom_jvp as custom_jvp
from jitgraph.transforms.custom import custom_vjp as custom_vjp
from jitgraph.transforms.elementwise import elementwise as elementwise
from jitgraph.transforms.jacobians import hessian as hessian
from jitgraph.transforms.jacobians import jacfwd as jacfwd
from jitgraph.transforms.jacobians import jacobian as jacobian
from jitgraph.transforms.jacobians import jacrev as jacrev
from jitgraph.transforms.jacobians import linearize as linearize
from jitgraph.transforms.recording import checkpoint as checkpoint
from jitgraph.transforms.vmap import apply_along_axis as apply_along_axis
from jitgraph.transforms.vmap import vectorize as vectorize
from jitgraph.transforms.vmap import vmap as vmap

bool = bool_

__version__: Final[str]
__array_api_version__: Final[str]

e: Final[float]
inf: Final[float]
nan: Final[float]
newaxis: Final[None]
pi: Final[float]

def __array_namespace_info__() -> Any: ...  # noqa: N807 - the name is the standard's
