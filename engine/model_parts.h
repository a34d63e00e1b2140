// Parts of a Model. Not installed: session.h and model.h do not need them.
#pragma once

#include "engine/graph/graph.h"
#include "kernels/attention/attention.h"
#include "model/config.h"
#include "model/gguf/gguf.h"
#include "model/vocabulary.h"
