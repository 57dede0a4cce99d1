// Everything that is public.
#pragma once

#include "pellucid/autograd.h"
#include "pellucid/compare.h"
#include "pellucid/creation.h"
#include "pellucid/graph.h"
#include "pellucid/indexing.h"
#include "pellucid/lazy.h"
#include "pellucid/memory.h"
#include "pellucid/op.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "pellucid/parallel.h"
#include "pellucid/print_options.h"
#include "pellucid/profiler.h"
#include "pellucid/stream.h"
#include "pellucid/tensor.h"
#include "pellucid/why_alive.h"
