"""torch.distributions: random variables with their densities, samples, moments and divergences."""
from . import constraints, transforms  # noqa: F401
from .continuous import (Cauchy, Exponential, Gumbel, HalfCauchy, HalfNormal, Laplace, LogNormal, Normal, Pareto,  # noqa: F401
                         TransformedDistribution, Uniform, Weibull)
from .discrete import (Bernoulli, Binomial, Categorical, Geometric, Multinomial, NegativeBinomial, OneHotCategorical,  # noqa: F401
                       OneHotCategoricalStraightThrough, Poisson)
from .distribution import Distribution, ExponentialFamily  # noqa: F401
from .gamma import Beta, Chi2, Dirichlet, FisherSnedecor, Gamma, InverseGamma, StudentT  # noqa: F401
from .kl import kl_divergence, register_kl  # noqa: F401
from .compound import (Independent, MixtureSameFamily, MultivariateNormal, RelaxedBernoulli,  # noqa: F401
                      RelaxedOneHotCategorical)
from .transforms import (AffineTransform, ComposeTransform, ExpTransform, PowerTransform, SigmoidTransform,  # noqa: F401
                         SoftmaxTransform, SoftplusTransform, TanhTransform, Transform)


def __getattr__(name):
    raise AttributeError(f"module 'torch.distributions' has no attribute '{name}' in pellucid")
