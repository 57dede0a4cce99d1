"""Lazy layers: the number of input features is that of the first input; from then on they are the ordinary layer."""
from ..parameter import Parameter, UninitializedParameter
from . import conv, norm
from .linear import Linear
from .module import Module


class _Lazy(Module):
    """Holds the constructor's arguments; the first call makes the layer and becomes it."""
    cls_to_become: "type | None" = None

    def __init__(self, *args, **kwargs):
        Module.__init__(self)
        self._arguments = args, kwargs
        # A layer of the least size says which attributes and parameters there will be.
        made = self._make(kwargs.get("groups", 1))
        self.__dict__.update({k: v for k, v in made.__dict__.items() if k not in self.__dict__})
        self._buffers.update(made._buffers)
        for name, value in made._parameters.items():
            self._parameters[name] = value if value is None else UninitializedParameter(value.requires_grad)
        for name in ("in_features", "in_channels", "num_features"):
            if name in self.__dict__:
                self.__dict__[name] = 0

    def reset_parameters(self):
        """Accepted: there are none yet."""

    def _make(self, features):
        args, kwargs = self._arguments
        return type(self).cls_to_become(features, *args, **kwargs)

    def _features(self, input):
        return input.shape[1]

    def has_uninitialized_params(self):
        """Whether no input has come yet."""
        return True

    def _materialize(self, features):
        made = self._make(features)
        for name, value in made._parameters.items():
            if value is not None:
                own = self._parameters[name]
                own.data = value.detach()
                own.__class__ = Parameter
        self._buffers.update(made._buffers)
        self.__dict__.update({k: v for k, v in made.__dict__.items()
                              if k not in ("_parameters", "_buffers", "_modules", "training") and "hooks" not in k})
        del self.__dict__["_arguments"]
        self.__class__ = type(self).cls_to_become

    def forward(self, input):
        self._materialize(self._features(input))
        return type(self).forward(self, input)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        weight = state_dict.get(prefix + "weight")
        if weight is None:
            return super()._load_from_state_dict(state_dict, prefix, *args)
        self._materialize(self._features_of(weight))
        return self._load_from_state_dict(state_dict, prefix, *args)


class LazyLinear(_Lazy, Linear):
    """Linear whose in_features the first input decides."""
    cls_to_become = Linear

    def _features(self, input):
        return input.shape[-1]

    def _features_of(self, weight):
        return weight.shape[1]


class _LazyConv(_Lazy):
    def _features(self, input):
        return input.shape[-1 - type(self).cls_to_become.dims]

    def _features_of(self, weight):
        return weight.shape[0] if self.transposed else weight.shape[1] * self.groups


class _LazyNorm(_Lazy):
    def _features_of(self, weight):
        return weight.shape[0]


def _lazy(of, base):
    return type(f"Lazy{of.__name__}", (base, of), {"cls_to_become": of, "__module__": __name__,
                                                "__doc__": f"{of.__name__} whose input channels the first input decides."})


LazyConv1d, LazyConv2d, LazyConv3d = (_lazy(c, _LazyConv) for c in (conv.Conv1d, conv.Conv2d, conv.Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy(c, _LazyConv) for c in (conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d))
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _lazy(c, _LazyNorm) for c in (norm.BatchNorm1d, norm.BatchNorm2d, norm.BatchNorm3d))
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _lazy(c, _LazyNorm) for c in (norm.InstanceNorm1d, norm.InstanceNorm2d, norm.InstanceNorm3d))
