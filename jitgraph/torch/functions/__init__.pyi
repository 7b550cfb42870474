"""The functions of ``torch``, and where each is defined; ``__init__.py`` says what the marks mean."""

from jitgraph.torch.aten_ops.pointwise import exp as exp  # method in_place
from jitgraph.torch.aten_ops.pointwise import sin as sin  # method in_place
from jitgraph.torch.functions.creation import tensor as tensor
from jitgraph.torch.functions.creation import zeros as zeros
from jitgraph.torch.functions.pointwise import add as add  # method in_place
from jitgraph.torch.functions.pointwise import mul as mul  # method in_place
from jitgraph.torch.functions.pointwise import sub as sub  # method in_place
from jitgraph.torch.functions.pointwise import sum as sum  # method
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
