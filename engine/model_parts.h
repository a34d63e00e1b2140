// What a Model is made of. Not installed: session.h and model.h need none of it.
#pragma once

#include "engine/graph/graph.h"
#include "kernels/attention/attention.h"
#include "model/config.h"
#include "model/gguf/gguf.h"
#include "model/vocabulary.h"
