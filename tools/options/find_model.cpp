#include "tools/options/find_model.h"

#include <cstdlib>
#include <filesystem>

#include "model/error.h"
#include "tools/options/model_store.h"

namespace cria::tools {
namespace fs = std::filesystem;
namespace {

bool is_url(const std::string& named) {
  return named.find("://") != std::string::npos || named.starts_with("hf.co/") ||
         named.starts_with("huggingface.co/");
}

/// "ORG/NAME", as models are called on Hugging Face.
bool is_repository(const std::string& named) {
  const std::size_t slash = named.find('/');
  return slash != 0 && slash != std::string::npos && slash + 1 < named.size() &&
         named.find('/', slash + 1) == std::string::npos && !named.starts_with(".") &&
         !named.starts_with("~");
}

/// The command that fetches what a URL names: a file as it is, a page of Hugging Face by its
/// repository.
std::string url_command(const std::string& url) {
  const std::size_t host = url.find("huggingface.co/") != std::string::npos
                               ? url.find("huggingface.co/") + 15
                           : url.find("hf.co/") != std::string::npos ? url.find("hf.co/") + 6
                                                                     : std::string::npos;
  if (host == std::string::npos || url.find("/resolve/") != std::string::npos)
    return "curl -L -O " + url;
  std::string repository = url.substr(host);
  const std::size_t slash = repository.find('/');
  if (slash != std::string::npos)
    repository.erase(std::min(repository.find('/', slash + 1), repository.size()));
  return "hf download " + repository + " --include '*.gguf'";
}

bool is_path(const std::string& named) {
  return named.starts_with("/") || named.starts_with("./") || named.starts_with("../") ||
         named.ends_with(".gguf");
}

[[noreturn]] void fail_unknown(const std::string& named) {
  const std::string command = is_repository(named) ? "hf download " + named + " --include '*.gguf'"
                                                   : "ollama pull " + named;
  throw Error(named,
              "no such file, and no model that cria list shows has this in its name. cria does not "
              "download "
              "models; this command does, if it is there: " +
                  command);
}

std::string find_by_name(const std::string& named) {
  const std::vector<KnownModel> found = matching_models(known_models(), named);
  if (found.empty()) fail_unknown(named);
  if (found.size() == 1) return found.front().path;
  constexpr std::size_t kShown = 5;
  std::string names;
  for (std::size_t i = 0; i < std::min(found.size(), kShown); ++i)
    names += (names.empty() ? "" : ", ") + found[i].name;
  throw Error(named, "several models have this in their names: " + names +
                         (found.size() > kShown ? ", …" : "") + "; name one of them");
}

}  // namespace

std::string find_model(const std::string& named) {
  std::error_code error;
  if (is_url(named))
    throw Error(named, "cria does not download models; this command does: " + url_command(named));
  if (!named.empty() && fs::exists(fs::path(named) / "config.json", error))
    throw Error(
        named,
        "is a directory: expected a GGUF file (cria convert makes one of Hugging Face's form)");
  if (!named.empty())
    return is_path(named) || fs::exists(named, error) ? named : find_by_name(named);
  if (const char* environment = std::getenv("CRIA_MODEL");
      environment != nullptr && *environment != '\0')
    return find_model(environment);
  if (const std::string demo = bundled_model(); !demo.empty()) return demo;
  throw Error("", "no model: the bundled one is not next to the program; name one with -m FILE");
}

}  // namespace cria::tools
