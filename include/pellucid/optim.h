// Optimisers and learning-rate schedules.
#pragma once

#include "pellucid/optim/adadelta.h"
#include "pellucid/optim/adagrad.h"
#include "pellucid/optim/adam.h"
#include "pellucid/optim/adamax.h"
#include "pellucid/optim/adamw.h"
#include "pellucid/optim/asgd.h"
#include "pellucid/optim/lbfgs.h"
#include "pellucid/optim/nadam.h"
#include "pellucid/optim/radam.h"
#include "pellucid/optim/rmsprop.h"
#include "pellucid/optim/rprop.h"
#include "pellucid/optim/schedulers.h"
#include "pellucid/optim/sgd.h"
#include "pellucid/optim/swa_utils.h"
