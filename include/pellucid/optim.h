// Optimisers and learning-rate schedules.
#pragma once

#include "pellucid/optim/adagrad.h"
#include "pellucid/optim/adam.h"
#include "pellucid/optim/adamw.h"
#include "pellucid/optim/lbfgs.h"
#include "pellucid/optim/rmsprop.h"
#include "pellucid/optim/schedulers.h"
#include "pellucid/optim/sgd.h"
