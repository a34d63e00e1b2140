// Models that do not exist, by the names that users give them.
#pragma once

#include <string>

#include "engine/synthetic/synthetic.h"

namespace cria::tools {

struct SyntheticSpec {
  const ModelShape& shape;
  const DTypeInfo& type;
};

/// "1.1b:Q4_K". Throws Error that lists what there is.
SyntheticSpec parse_synthetic(const std::string& spec);
/// For an option: what is wrong with it; "": nothing.
std::string check_synthetic(const std::string& spec);

/// A synthetic model's file: kept where the user said, else gone with this object, and with the
/// process whatever ends it.
class SyntheticFile {
 public:
  enum class Weights {
    Random,
    Holes,  ///< all are 0, and take no place on the disk: for what does not depend on them
  };
  /// keep: a path; "": among the temporary files, and from then on without a name. Throws Error.
  SyntheticFile(const std::string& spec, const std::string& keep,
                Weights weights = Weights::Random);
  ~SyntheticFile();
  SyntheticFile(const SyntheticFile&) = delete;
  SyntheticFile& operator=(const SyntheticFile&) = delete;
  /// For any process of this user on this machine.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void forget_name();

  std::string path_;
  int descriptor_ = -1;  // of a file without a name
};

}  // namespace cria::tools
