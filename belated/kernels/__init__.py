"""What every kernel may call; and, reached as `bl.kernels.squared_exponential`, the covariances ("kernels") of Gaussian
processes on points."""

from belated.kernels.covariances import matern as matern
from belated.kernels.covariances import squared_exponential as squared_exponential
