// Files of multiple-choice questions, and how a model does on them.
#pragma once
#include <string>
#include <vector>

#include "engine/evaluate/scorer.h"

namespace cria::tools {

/// Reads one JSON object per line, in the forms of ARC, HellaSwag and others. Fields are a question
/// (or "ctx"), its choices (strings, or {"text": […], "label": […]}, or "endings") and the answer
/// ("answer", "answerKey" or "label"). The answer is a label, the text of a choice, or an index
/// from 0. Throws Error that names the line.
std::vector<ChoiceQuestion> read_choices(const std::string& path);

/// Scores them with progress; prints accuracy and its standard error. Throws Interrupted.
void run_choices(Engine& engine, const std::vector<ChoiceQuestion>& questions, bool json);

}  // namespace cria::tools
