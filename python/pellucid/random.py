"""torch.random: the generator of the process and generators of one's own."""
from . import _C
from ._functions import manual_seed  # noqa: F401
from ._types import CPU, check_device

initial_seed, seed = _C.initial_seed, _C.seed


class Generator:
    """A stream of random numbers of its own; functions take it as `generator=`."""

    device = CPU

    def __init__(self, device="cpu"):
        check_device(device)
        self._state = (67280421310721, 0)

    def manual_seed(self, seed):
        self._state = (int(seed) & 0xFFFFFFFFFFFFFFFF, 0)
        return self

    def seed(self):
        import secrets
        self.manual_seed(secrets.randbits(63))
        return self._state[0]

    def initial_seed(self):
        return self._state[0]

    def get_state(self):
        return _state_tensor(self._state)

    def set_state(self, state):
        self._state = _state_of(state)
        return self

    def __enter__(self):
        """Lets ops draw from this stream until the end of the scope."""
        self._before = _C._rng_state()
        _C._set_rng_state(*self._state)

    def leave(self):
        self._state = _C._rng_state()
        _C._set_rng_state(*self._before)

    def __exit__(self, *_):
        self.leave()


class _Default(Generator):
    """The generator of the process."""

    @property
    def _state(self):
        return _C._rng_state()

    @_state.setter
    def _state(self, state):
        _C._set_rng_state(*state)

    def __init__(self):
        pass

    def __enter__(self):
        pass

    def leave(self):
        pass


default_generator = _Default()


def _state_tensor(state):
    data = b"".join(n.to_bytes(8, "little") for n in state)
    return _C._make_tensor(list(data), _C.uint8)


def _state_of(tensor):
    data = bytes(tensor.tolist())
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:16], "little")


def get_rng_state():
    """Where the stream of the process stands."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Continues the stream of the process from a saved place."""
    default_generator.set_state(new_state)


class fork_rng:
    """Restores the stream of the process at the end of the scope."""

    def __init__(self, devices=None, enabled=True):
        self.enabled = enabled

    def __enter__(self):
        self.before = get_rng_state()

    def __exit__(self, *_):
        if self.enabled:
            set_rng_state(self.before)

