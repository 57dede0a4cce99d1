// Ready-made models.
#pragma once

#include "pellucid/models/classifiers.h"
#include "pellucid/models/gpt.h"
#include "pellucid/models/language.h"
#include "pellucid/models/llama.h"
#include "pellucid/models/resnet.h"
