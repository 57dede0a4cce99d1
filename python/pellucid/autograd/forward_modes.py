"""no_grad and its kin: each is a context and a decorator, also of generators."""
import functools
import inspect

from .. import _C


class _Mode:
    """A mode for a scope. Subclasses say how it is entered and left."""

    def __call__(self, function):
        if inspect.isclass(function):
            return function
        if inspect.isgeneratorfunction(function):
            @functools.wraps(function)
            def generate(*args, **kwargs):
                inner = function(*args, **kwargs)
                sent = None
                while True:
                    with self._again():
                        try:
                            value = inner.send(sent)
                        except StopIteration as end:
                            return end.value
                    sent = yield value
            return generate

        @functools.wraps(function)
        def call(*args, **kwargs):
            with self._again():
                return function(*args, **kwargs)
        return call

    def _again(self):
        return type(self)()


class _GradMode(_Mode):
    on = True

    def __new__(cls, function=None):
        self = super().__new__(cls)
        return self if function is None else self(function)  # @no_grad without parentheses

    def __enter__(self):
        self.before = _C.is_grad_enabled()
        _C._set_grad_enabled(self.on)

    def __exit__(self, *_):
        _C._set_grad_enabled(self.before)


class no_grad(_GradMode):
    """No operation is tracked in its scope."""
    on = False


class enable_grad(_GradMode):
    """Operations are tracked in its scope."""
    on = True


class set_grad_enabled(_Mode):
    """Sets at once whether operations are tracked; as a context, for a scope."""

    def __init__(self, mode):
        self.mode, self.before = bool(mode), _C.is_grad_enabled()
        _C._set_grad_enabled(self.mode)

    def __call__(self, function):
        _C._set_grad_enabled(self.before)
        return super().__call__(function)

    def _again(self):
        return set_grad_enabled(self.mode)

    def __enter__(self):
        pass

    def __exit__(self, *_):
        _C._set_grad_enabled(self.before)


class inference_mode(_Mode):
    """Like no_grad, and the tensors made in it may never be saved for backward."""

    def __new__(cls, mode=True):
        self = super().__new__(cls)
        self.mode = True if callable(mode) else mode
        return self(mode) if callable(mode) else self

    def _again(self):
        return inference_mode(self.mode)

    def __enter__(self):
        _C._enter_inference(bool(self.mode))

    def __exit__(self, *_):
        _C._leave_inference()


class set_detect_anomaly:
    """Sets whether a gradient that turns NaN names the forward op, its place and shapes."""

    def __init__(self, mode, check_nan=True):
        self.before = _C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled()
        _C._set_anomaly(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *_):
        _C._set_anomaly(*self.before)


class detect_anomaly:
    """The same for a scope."""

    def __init__(self, check_nan=True):
        self.check_nan = check_nan

    def __enter__(self):
        self.scope = set_detect_anomaly(True, self.check_nan)

    def __exit__(self, *_):
        self.scope.__exit__()
