"""Which values a parameter or a random variable may have."""


class Constraint:
    """check(value) says for each value whether it is allowed."""
    is_discrete = False
    event_dim = 0

    def check(self, value):
        raise NotImplementedError

    def __repr__(self):
        return type(self).__name__[1:] + "()"


class _Where(Constraint):
    """Given by a function and a text."""

    def __init__(self, text, check, is_discrete=False, event_dim=0):
        self._text, self._check, self.is_discrete, self.event_dim = text, check, is_discrete, event_dim

    def check(self, value):
        return self._check(value)

    def __repr__(self):
        return self._text


def _whole(value):
    return value == value.floor()


dependent = _Where("Dependent()", lambda v: v == v)
real = _Where("Real()", lambda v: v == v)
real_vector = _Where("IndependentConstraint(Real(), 1)", lambda v: (v == v).all(-1), event_dim=1)
boolean = _Where("Boolean()", lambda v: (v == 0) | (v == 1), is_discrete=True)
nonnegative_integer = _Where("IntegerGreaterThan(lower_bound=0)", lambda v: _whole(v) & (v >= 0), is_discrete=True)
positive_integer = _Where("IntegerGreaterThan(lower_bound=1)", lambda v: _whole(v) & (v >= 1), is_discrete=True)
positive = _Where("GreaterThan(lower_bound=0.0)", lambda v: v > 0)
nonnegative = _Where("GreaterThanEq(lower_bound=0.0)", lambda v: v >= 0)
unit_interval = _Where("Interval(lower_bound=0.0, upper_bound=1.0)", lambda v: (v >= 0) & (v <= 1))
half_open_unit_interval = _Where("HalfOpenInterval(lower_bound=0.0, upper_bound=1.0)", lambda v: (v >= 0) & (v < 1))
simplex = _Where("Simplex()", lambda v: (v >= 0).all(-1) & ((v.sum(-1) - 1).abs() < 1e-6), event_dim=1)
one_hot = _Where("OneHot()", lambda v: ((v == 0) | (v == 1)).all(-1) & (v.sum(-1) == 1), is_discrete=True, event_dim=1)
positive_definite = _Where("PositiveDefinite()", lambda v: (v.mT - v).abs().amax((-2, -1)) < 1e-6, event_dim=2)
lower_cholesky = _Where("LowerCholesky()", lambda v: (v.tril() == v).flatten(-2).all(-1)
                        & (v.diagonal(dim1=-2, dim2=-1) > 0).all(-1), event_dim=2)


def interval(lower_bound, upper_bound):
    """Between two bounds, both included."""
    return _Where(f"Interval(lower_bound={lower_bound}, upper_bound={upper_bound})",
                  lambda v: (v >= lower_bound) & (v <= upper_bound))


def integer_interval(lower_bound, upper_bound):
    """Whole numbers between two bounds, both included."""
    return _Where(f"IntegerInterval(lower_bound={lower_bound}, upper_bound={upper_bound})",
                  lambda v: _whole(v) & (v >= lower_bound) & (v <= upper_bound), is_discrete=True)


def greater_than(lower_bound):
    """Above a bound."""
    return _Where(f"GreaterThan(lower_bound={lower_bound})", lambda v: v > lower_bound)


def greater_than_eq(lower_bound):
    """At or above a bound."""
    return _Where(f"GreaterThanEq(lower_bound={lower_bound})", lambda v: v >= lower_bound)
