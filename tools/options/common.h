// What most subcommands include.
#pragma once

#include "tools/options/command.h"
#include "tools/options/find_model.h"
#include "tools/options/input.h"
#include "tools/options/model.h"
