// Speeds beside other engines, as Markdown tables.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cria::tools {

/// A line of a CSV file, by the names of its columns.
using Row = std::map<std::string, std::string>;

double value(const Row& row, const std::string& name);

/// What was measured on one machine: models in the order of the file, each with its columns.
struct Machine {
  std::string name;
  std::vector<std::pair<std::string, std::map<std::string, Row>>> models;
  std::vector<std::string> columns;  ///< of any model
};

/// The rows of speeds.csv.
std::vector<Machine> machines(const std::vector<Row>& rows);

/// "1.1b:Q4_K" is Q4_K: the shape of nearly all.
std::string label(const std::string& model);

/// A line for each machine: how far types of integers are ahead of the best peer, and types of
/// floats.
std::string overview_table(const std::vector<Machine>& all);

/// All of one machine, a line for each type: prompts of 512 and decoding, then short prompts and
/// depth. A ratio is bold where it is above 1.1: less is within the error.
std::string machine_tables(const Machine& machine);

}  // namespace cria::tools
