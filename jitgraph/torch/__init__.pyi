"""The names of ``torch``, and where each is defined."""

from typing import Any, Final

from jitgraph.errors import OutOfMemoryError as OutOfMemoryError
from jitgraph.torch import accelerator as accelerator
from jitgraph.torch import amp as amp
from jitgraph.torch import autograd as autograd
from jitgraph.torch import backends as backends
from jitgraph.torch import compiler as compiler
from jitgraph.torch import cpu as cpu
from jitgraph.torch import cuda as cuda
from jitgraph.torch import distributed as distributed
from jitgraph.torch import distributions as distributions
from jitgraph.torch import export as export
from jitgraph.torch import fft as fft
from jitgraph.torch import func as func
from jitgraph.torch import functional as functional
from jitgraph.torch import hub as hub
from jitgraph.torch import jit as jit
from jitgraph.torch import linalg as linalg
from jitgraph.torch import masked as masked
from jitgraph.torch import multiprocessing as multiprocessing
from jitgraph.torch import nn as nn
from jitgraph.torch import optim as optim
from jitgraph.torch import profiler as profiler
from jitgraph.torch import random as random
from jitgraph.torch import return_types as return_types
from jitgraph.torch import serialization as serialization
from jitgraph.torch import signal as signal
from jitgraph.torch import special as special
from jitgraph.torch import testing as testing
from jitgraph.torch import types as types
from jitgraph.torch import utils as utils
from jitgraph.torch import version as version
from jitgraph.torch.amp.autocast_mode import autocast as autocast
from jitgraph.torch.amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
from jitgraph.torch.amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
from jitgraph.torch.amp.grad_scaler import GradScaler as GradScaler
from jitgraph.torch.autograd.anomaly_mode import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from jitgraph.torch.autograd.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
from jitgraph.torch.autograd.anomaly_mode import set_anomaly_enabled as set_anomaly_enabled
from jitgraph.torch.autograd.grad_mode import enable_grad as enable_grad
from jitgraph.torch.autograd.grad_mode import inference_mode as inference_mode
from jitgraph.torch.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from jitgraph.torch.autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from jitgraph.torch.autograd.grad_mode import no_grad as no_grad
from jitgraph.torch.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from jitgraph.torch.compiling import compile as compile
from jitgraph.torch.constants import channels_last as channels_last
from jitgraph.torch.constants import channels_last_3d as channels_last_3d
from jitgraph.torch.constants import contiguous_format as contiguous_format
from jitgraph.torch.constants import layout as layout
from jitgraph.torch.constants import memory_format as memory_format
from jitgraph.torch.constants import preserve_format as preserve_format
from jitgraph.torch.constants import strided as strided
from jitgraph.torch.func.transforms import vmap as vmap
from jitgraph.torch.functions import *
from jitgraph.torch.metadata import Size as Size
from jitgraph.torch.metadata import device as device
from jitgraph.torch.metadata import get_default_device as get_default_device
from jitgraph.torch.metadata import set_default_device as set_default_device
from jitgraph.torch.printing import set_printoptions as set_printoptions
from jitgraph.torch.random import Generator as Generator
from jitgraph.torch.random import default_generator as default_generator
from jitgraph.torch.random import get_rng_state as get_rng_state
from jitgraph.torch.random import initial_seed as initial_seed
from jitgraph.torch.random import manual_seed as manual_seed
from jitgraph.torch.random import seed as seed
from jitgraph.torch.random import set_rng_state as set_rng_state
from jitgraph.torch.random import thread_safe_generator as thread_safe_generator
from jitgraph.torch.scalar_types import bfloat16 as bfloat16
from jitgraph.torch.scalar_types import bool_
from jitgraph.torch.scalar_types import complex64 as complex64
from jitgraph.torch.scalar_types import complex128 as complex128
from jitgraph.torch.scalar_types import dtype as dtype
from jitgraph.torch.scalar_types import finfo as finfo
from jitgraph.torch.scalar_types import float16 as float16
from jitgraph.torch.scalar_types import float32 as float32
from jitgraph.torch.scalar_types import float64 as float64
from jitgraph.torch.scalar_types import get_default_dtype as get_default_dtype
from jitgraph.torch.scalar_types import iinfo as iinfo
from jitgraph.torch.scalar_types import int8 as int8
from jitgraph.torch.scalar_types import int16 as int16
from jitgraph.torch.scalar_types import int32 as int32
from jitgraph.torch.scalar_types import int64 as int64
from jitgraph.torch.scalar_types import set_default_dtype as set_default_dtype
from jitgraph.torch.scalar_types import uint8 as uint8
from jitgraph.torch.scalar_types import uint16 as uint16
from jitgraph.torch.scalar_types import uint32 as uint32
from jitgraph.torch.scalar_types import uint64 as uint64
from jitgraph.torch.serialization import load as load
from jitgraph.torch.serialization import save as save
from jitgraph.torch.settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from jitgraph.torch.settings import compiled_with_cxx11_abi as compiled_with_cxx11_abi
from jitgraph.torch.settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from jitgraph.torch.settings import get_float32_matmul_precision as get_float32_matmul_precision
from jitgraph.torch.settings import (
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
)
from jitgraph.torch.settings import is_vulkan_available as is_vulkan_available
from jitgraph.torch.settings import is_warn_always_enabled as is_warn_always_enabled
from jitgraph.torch.settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from jitgraph.torch.settings import set_float32_matmul_precision as set_float32_matmul_precision
from jitgraph.torch.settings import set_flush_denormal as set_flush_denormal
from jitgraph.torch.settings import set_warn_always as set_warn_always
from jitgraph.torch.settings import use_deterministic_algorithms as use_deterministic_algorithms
from jitgraph.torch.tensor_classes import BFloat16Tensor as BFloat16Tensor
from jitgraph.torch.tensor_classes import BoolTensor as BoolTensor
from jitgraph.torch.tensor_classes import ByteTensor as ByteTensor
from jitgraph.torch.tensor_classes import CharTensor as CharTensor
from jitgraph.torch.tensor_classes import DoubleTensor as DoubleTensor
from jitgraph.torch.tensor_classes import FloatTensor as FloatTensor
from jitgraph.torch.tensor_classes import HalfTensor as HalfTensor
from jitgraph.torch.tensor_classes import IntTensor as IntTensor
from jitgraph.torch.tensor_classes import LongTensor as LongTensor
from jitgraph.torch.tensor_classes import ShortTensor as ShortTensor
from jitgraph.torch.tensor_classes import set_default_tensor_type as set_default_tensor_type
from jitgraph.torch.tensors import Tensor as Tensor
from jitgraph.torch.writing import can_cast as can_cast

bool = bool_
cdouble = complex128
cfloat = complex64
double = float64
e: Final = 2.718281828459045
float = float32
half = float16
inf: Final[Any]
int = int32
legacy_contiguous_format = contiguous_format
long = int64
nan: Final[Any]
newaxis: Final = None
pi: Final = 3.141592653589793
short = int16
