"""What proxies read: the passes through a network, the values that they leave, and the record of its operations."""

from __future__ import annotations

from ..operations.calls import Call as Call
from ..operations.calls import Operations as Operations
from .backward import JACOBIAN as JACOBIAN
from .backward import LOSS as LOSS
from .backward import LOSS_PASS as LOSS_PASS
from .backward import Backward as Backward
from .backward import InputGradient as InputGradient
from .backward import LayerGradients as LayerGradients
from .backward import Layers as Layers
from .backward import ParameterGradients as ParameterGradients
from .backward import Weights as Weights
from .core import Need as Need
from .core import Pass as Pass
from .forward import DATA as DATA
from .forward import LABELS as LABELS
from .forward import Forward as Forward
from .forward import Labels as Labels
from .forward import Logits as Logits
from .forward import Variances as Variances
from .hessian import HessianProduct as HessianProduct
from .objectives import Objective as Objective
from .per_image import OfEach as OfEach
from .per_image import PerImage as PerImage
from .readings import OPERATIONS as OPERATIONS
from .readings import PARAMETERS as PARAMETERS
from .readings import Draw as Draw
from .signs import Signs as Signs
from .taps import Tap as Tap
from .taps import Tapped as Tapped
