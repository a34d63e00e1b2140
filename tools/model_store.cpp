#include "tools/model_store.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "model/error.h"
#include "model/file/json.h"

namespace cria::tools {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kSuffix = ".gguf";

fs::path environment_path(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path in_home(const char* below) {
  const fs::path home = environment_path("HOME");
  return home.empty() ? home : home / below;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// Files below a directory, in order; those that cannot be read are passed over.
std::vector<fs::path> files_below(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  if (directory.empty()) return files;
  constexpr auto kOptions = fs::directory_options::follow_directory_symlink |
                            fs::directory_options::skip_permission_denied;
  constexpr int kDeepest = 8;  // links may go in circles
  for (fs::recursive_directory_iterator at(directory, kOptions, error), end; !error && at != end;
       at.increment(error)) {
    if (at.depth() >= kDeepest) at.disable_recursion_pending();
    std::error_code of_file;
    if (at->is_regular_file(of_file)) files.push_back(at->path());
  }
  std::ranges::sort(files);
  return files;
}

std::uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

/// Models among the files below a directory: a split one is its first file. Named by their paths
/// from `base`.
void add_files(std::vector<KnownModel>& models, const fs::path& directory, const fs::path& base,
               const std::string& prefix, const std::string& place) {
  static const std::regex shard(R"((.*)-(\d{5})-of-\d{5}\.gguf)");
  std::set<fs::path> seen;  // one file by several names
  for (const fs::path& file : files_below(directory)) {
    std::error_code error;
    if (file.extension() != kSuffix || !seen.insert(fs::canonical(file, error)).second) continue;
    const std::string name = file.lexically_relative(base).generic_string();
    std::smatch parts;
    if (std::regex_match(name, parts, shard)) {
      if (parts[2] != "00001") {
        if (!models.empty() && models.back().name == prefix + parts[1].str())
          models.back().bytes += size_of(file);
        continue;
      }
      models.push_back({prefix + parts[1].str(), place, file.string(), size_of(file)});
    } else {
      models.push_back({prefix + name.substr(0, name.size() - kSuffix.size()), place, file.string(),
                        size_of(file)});
    }
  }
}

void add_directories(std::vector<KnownModel>& models) {
  std::string list = environment_path("CRIA_MODELS").string();
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(':'), list.size());
    const fs::path directory = list.substr(0, end);
    if (!directory.empty()) add_files(models, directory, directory, "", "CRIA_MODELS");
    list.erase(0, end + 1);
  }
}

/// Adds what LM Studio and llama.cpp have downloaded.
void add_other_directories(std::vector<KnownModel>& models) {
  const fs::path cache = environment_path("LLAMA_CACHE");
  const std::pair<fs::path, const char*> places[] = {
      {in_home(".lmstudio/models"), "LM Studio"},
      {in_home(".cache/lm-studio/models"), "LM Studio"},
      {cache.empty() ? in_home(".cache/llama.cpp") : cache, "llama.cpp"}};
  for (const auto& [directory, place] : places) add_files(models, directory, directory, "", place);
}

/// hub/models--ORG--NAME/snapshots/REVISION/FILE, as huggingface_hub lays it out.
void add_hugging_face(std::vector<KnownModel>& models) {
  fs::path hub = environment_path("HF_HUB_CACHE");
  if (hub.empty() && !environment_path("HF_HOME").empty())
    hub = environment_path("HF_HOME") / "hub";
  if (hub.empty() && !environment_path("XDG_CACHE_HOME").empty())
    hub = environment_path("XDG_CACHE_HOME") / "huggingface/hub";
  if (hub.empty()) hub = in_home(".cache/huggingface/hub");
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(hub, error)) {
    constexpr std::string_view kPrefix = "models--";
    std::string repository = entry.path().filename().string();
    if (!repository.starts_with(kPrefix)) continue;
    repository.erase(0, kPrefix.size());
    if (const std::size_t at = repository.find("--"); at != std::string::npos)
      repository.replace(at, 2, "/");
    std::set<std::string> names;
    for (const fs::directory_entry& revision :
         fs::directory_iterator(entry.path() / "snapshots", error)) {
      std::vector<KnownModel> found;
      add_files(found, revision.path(), revision.path(), repository + "/", "Hugging Face");
      for (KnownModel& model : found)
        if (names.insert(model.name).second) models.push_back(std::move(model));
    }
  }
}

/// The blob of the model's layer, or "".
std::string model_blob(const fs::path& manifest, const fs::path& store) {
  constexpr std::uint64_t kLongest = 1 << 20;  // bytes; a manifest is a few hundred
  if (size_of(manifest) > kLongest) return "";
  std::ifstream in(manifest);
  const Json json = try_json(std::string(std::istreambuf_iterator(in), {}));
  if (!json.is_object() || !json.contains("layers") || !json["layers"].is_array()) return "";
  for (const Json& layer : json["layers"]) {
    if (!layer.is_object() ||
        layer.value("mediaType", Json()) != "application/vnd.ollama.image.model")
      continue;
    const Json digest = layer.value("digest", Json());
    if (!digest.is_string()) continue;
    std::string file = digest;
    std::ranges::replace(file, ':', '-');
    if (file.find('/') != std::string::npos) continue;
    return (store / "blobs" / file).string();
  }
  return "";
}

/// manifests/HOST/NAMESPACE/NAME/TAG, and blobs/sha256-…, as ollama lays them out.
void add_ollama(std::vector<KnownModel>& models) {
  std::vector<fs::path> stores = {environment_path("OLLAMA_MODELS")};
  if (stores.front().empty())
    stores = {in_home(".ollama/models"), "/usr/share/ollama/.ollama/models"};
  for (const fs::path& store : stores) {
    const fs::path manifests = store / "manifests";
    for (const fs::path& manifest : files_below(store.empty() ? store : manifests)) {
      const std::string blob = model_blob(manifest, store);
      std::error_code error;
      if (blob.empty() || !fs::is_regular_file(blob, error)) continue;
      std::string name = manifest.parent_path().lexically_relative(manifests).generic_string();
      for (const std::string_view usual : {"registry.ollama.ai/", "library/"})
        if (name.starts_with(usual)) name.erase(0, usual.size());
      models.push_back({name + ":" + manifest.filename().string(), "ollama", blob, size_of(blob)});
    }
  }
}

}  // namespace

std::string bundled_model() {
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"../share/cria", "../data", "."}) {  // installed; the build tree
    const fs::path candidate = bin / place / "cria-demo-Q8_0.gguf";
    if (fs::exists(candidate, error)) return candidate.lexically_normal().string();
  }
  return "";
}

std::vector<KnownModel> known_models() {
  std::vector<KnownModel> models;
  if (const std::string demo = bundled_model(); !demo.empty())
    models.push_back({fs::path(demo).stem().string(), "bundled", demo, size_of(demo)});
  add_directories(models);
  add_hugging_face(models);
  add_ollama(models);
  add_other_directories(models);
  return models;
}

namespace {

/// "org/name:tag" in two; without a colon behind a slash the tag is "".
std::pair<std::string, std::string> repository_and_tag(const std::string& named) {
  const std::size_t colon = named.find_last_of(":@"), slash = named.find('/');  // @: LM Studio
  if (colon == std::string::npos || slash == std::string::npos || colon < slash) return {named, ""};
  return {named.substr(0, colon), named.substr(colon + 1)};
}

}  // namespace

std::vector<KnownModel> matching_models(const std::vector<KnownModel>& models,
                                        std::string_view name) {
  const std::string wanted = lower(name);
  std::vector<KnownModel> same, holding;
  const auto [repository, tag] = repository_and_tag(wanted);
  for (const KnownModel& model : models) {
    const std::string its = lower(model.name);
    if (its == wanted || its.ends_with("/" + wanted)) same.push_back(model);
    const bool tagged = !tag.empty() && its.starts_with(repository + "/") &&
                        its.find(tag, repository.size()) != std::string::npos;
    if (tagged || its.find(wanted) != std::string::npos) holding.push_back(model);
  }
  return same.empty() ? holding : same;
}

bool resembles_model(const std::string& word) {
  constexpr std::string_view kFamilies[] = {"llama",   "qwen",     "gemma",   "phi",
                                            "mistral", "mixtral",  "gpt-oss", "codellama",
                                            "smollm",  "deepseek", "granite", "olmo"};
  const auto* const family = std::ranges::find_if(
      kFamilies, [&](std::string_view name) { return word.starts_with(name); });
  constexpr std::size_t kLongest = 40;
  static const std::regex repository(R"([\w.-]+/[\w.-]*(\d|gguf|GGUF)[\w.-]*)");
  if (word.size() <= kLongest && std::regex_match(word, repository)) return true;
  if (family == std::end(kFamilies) || word.size() > kLongest) return false;
  static const std::regex version(R"((-?[rv]?\d[\w.-]*)?)");
  return std::regex_match(word.substr(family->size()), version);
}

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

/// True for a tag of ollama's registry, "latest" or "8b-instruct"; on Hugging Face the tag is a
/// quantization.
bool is_registry_tag(const std::string& tag) {
  static const std::regex size(R"(latest|\d+(\.\d+)?[bm]([-_].*)?)", std::regex::icase);
  return std::regex_match(tag, size);
}

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// Fetches one quantization: a repository may hold twenty of them. One that is not named after GGUF
/// may hold a model to convert.
std::string hub_command(const std::string& named) {
  const auto [repository, tag] = repository_and_tag(named);
  if (tag.empty() && lower(repository).find("gguf") == std::string::npos) {
    const std::string name = repository.substr(repository.find('/') + 1);
    return "hf download " + repository +
           " --include '*Q4_K_M*' if it has GGUF files, else hf download " + repository +
           " --local-dir " + name + " && cria convert " + name + " -o " + name + ".gguf";
  }
  const bool any = tag.empty() || is_registry_tag(tag);  // files are named by capital letters
  return "hf download " + repository + " --include '*" + (any ? "Q4_K_M" : in_capitals(tag)) + "*'";
}

/// Other programs write "hf://USER/REPO", "hf://USER/REPO/FILE.gguf" and "ollama://NAME". Returns
/// the name, or the URL of the file.
std::string without_scheme(const std::string& named) {
  for (const std::string_view scheme : {"hf://", "huggingface://", "ollama://"}) {
    if (!named.starts_with(scheme)) continue;
    const std::string rest = named.substr(scheme.size());
    const std::size_t file = rest.find('/', rest.find('/') + 1);
    if (!rest.ends_with(".gguf") || file == std::string::npos) return rest;
    return "https://huggingface.co/" + rest.substr(0, file) + "/resolve/main" + rest.substr(file);
  }
  return named;
}

/// The command that fetches what a URL names: a file as it is, a page of Hugging Face by its
/// repository.
std::string url_command(const std::string& url) {
  const std::size_t host = url.find("huggingface.co/") != std::string::npos
                               ? url.find("huggingface.co/") + 15
                           : url.find("hf.co/") != std::string::npos ? url.find("hf.co/") + 6
                                                                     : std::string::npos;
  // The page of a file, and the file.
  std::string file = url.substr(0, url.find('?'));
  if (const std::size_t page = file.find("/blob/"); host != std::string::npos && page < file.size())
    file.replace(page, 6, "/resolve/");
  if (host == std::string::npos) return "curl -L -O '" + url + "'";
  if (file.find("/resolve/") != std::string::npos) return "curl -L -O '" + file + "'";
  std::string repository = file.substr(host);
  const std::size_t slash = repository.find('/');
  if (slash != std::string::npos)
    repository.erase(std::min(repository.find('/', slash + 1), repository.size()));
  return hub_command(repository);
}

/// Says how to get what a URL names.
std::string url_advice(const std::string& url) {
  if (url.starts_with("file://")) return "a file on this machine is named without file://";
  const bool fetchable = url.starts_with("http") || url.find("://") == std::string::npos;
  return "cria does not download models; " + (fetchable ? "this command does: " + url_command(url)
                                                        : "download the file, and name it with -m");
}

/// "README.md": a file's name rather than a model's.
bool has_file_extension(const std::string& named) {
  const std::string extension = fs::path(named).extension().string();
  return extension.size() > 1 && extension.size() <= 6 &&
         std::ranges::all_of(extension.substr(1), [](unsigned char c) { return std::isalpha(c); });
}

bool is_path(const std::string& named) {
  return named.starts_with("/") || named.starts_with("./") || named.starts_with("../") ||
         named.ends_with(".gguf");
}

[[noreturn]] void fail_unknown(const std::string& named) {
  if (has_file_extension(named))
    throw Error(named, "no such file, and no model with this name on this machine (see cria list)");
  std::string advice;
  if (is_repository(named) && !is_registry_tag(repository_and_tag(named).second))
    advice = "; try: " + hub_command(named);
  else if (resembles_model(named) || named.find(':') != std::string::npos)
    advice = "; try: ollama pull " + named;
  throw Error(
      named,
      "no such file, and no model with this name on this machine (see cria list). cria does "
      "not download models" +
          advice);
}

KnownModel find_by_name(const std::string& named) {
  constexpr std::string_view kLatest = ":latest";  // as ollama names what has no other tag
  const std::vector<KnownModel> known = known_models();
  std::vector<KnownModel> found = matching_models(known, named);
  if (found.empty() && named.ends_with(kLatest))
    found = matching_models(known, named.substr(0, named.size() - kLatest.size()));
  constexpr std::size_t kShortest = 3;  // "a" is in the name of most models
  if (found.empty() || (named.size() < kShortest && lower(found.front().name) != lower(named)))
    fail_unknown(named);
  if (found.size() == 1) return found.front();
  constexpr std::size_t kShown = 5;
  std::string names;
  for (std::size_t i = 0; i < std::min(found.size(), kShown); ++i)
    names += (names.empty() ? "" : ", ") + found[i].name;
  throw Error(named, "several models have this in their names: " + names +
                         (found.size() > kShown ? ", …" : "") + "; name one of them");
}

/// The file of "hf.co/USER/REPO:TAG", or of a URL of a repository, if the cache has just one; "" if
/// not, and for other names.
std::string cached_repository(const std::string& named) {
  for (const std::string_view host : {"hf.co/", "huggingface.co/"})
    for (const std::string_view scheme : {"https://", ""}) {
      const std::string begin = std::string(scheme).append(host);
      if (!named.starts_with(begin) || !is_repository(named.substr(begin.size()))) continue;
      const std::vector<KnownModel> found =
          matching_models(known_models(), named.substr(begin.size()));
      return found.size() == 1 ? found.front().path : "";
    }
  return "";
}

}  // namespace

std::string find_model(const std::string& typed) {
  const std::string named = without_scheme(typed);
  std::error_code error;
  if (const std::string cached = cached_repository(named); !cached.empty()) return cached;
  if (is_url(named)) throw Error(named, url_advice(named));
  if (!named.empty() && fs::exists(fs::path(named) / "config.json", error))
    throw Error(named, "is a Hugging Face model directory; cria convert makes a GGUF file of it");
  if (const fs::path file = named;
      file.extension() == ".safetensors" || file.filename() == "config.json")
    if (fs::exists(file.parent_path() / "config.json", error))
      throw Error(named, "belongs to a Hugging Face model directory; cria convert " +
                             (file.has_parent_path() ? file.parent_path().string() : ".") +
                             " makes a GGUF file of it");
  if (!named.empty())
    return is_path(named) || fs::exists(named, error) ? named : find_by_name(named).path;
  if (const char* environment = std::getenv("CRIA_MODEL");
      environment != nullptr && *environment != '\0')
    return find_model(environment);
  if (const std::string demo = bundled_model(); !demo.empty()) return demo;
  throw Error("", "no model: the bundled one is not next to the program; name one with -m FILE");
}

std::vector<KnownModel> models_at(const std::string& place) {
  std::error_code error;
  if (place == "all") return known_models();
  std::vector<KnownModel> models;
  if (fs::is_directory(place, error)) {
    add_files(models, place, place, "", place);
    std::erase_if(models, [](const KnownModel& model) {
      return model.name.find('/') != std::string::npos;  // of a directory below
    });
    return models;
  }
  if (is_path(place) || fs::exists(place, error)) {
    if (!fs::exists(place, error)) throw Error(place, "no such file or directory");
    return {{fs::path(place).stem().string(), place, place, size_of(place)}};
  }
  return {find_by_name(place)};
}

}  // namespace cria::tools
