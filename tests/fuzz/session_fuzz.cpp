// Session files, files of log-probabilities, and states of measurements. The first byte selects the
// kind, and whether checksums are corrected; without that, reading ends there.
#include <cstring>
#include <numeric>

#include "engine/evaluate/log_probs.h"
#include "engine/evaluate/perplexity.h"
#include "engine/model_parts.h"
#include "tests/fuzz/byte_source.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seed_models.h"

namespace cria::fuzz {
namespace {

constexpr std::uint8_t kKinds = 5;  // sessions of three KV types, log-probabilities, a state
constexpr std::uint8_t kRepair = 0x80;
constexpr std::uint32_t kSessionPositions = 24;

const Model& session_model() {
  static const auto model = Model::load(MemoryFile(SeedModel{}.form().bytes()).path());
  return *model;
}

std::unique_ptr<Session> session_of(KvType kv_type) {
  SessionOptions options;
  options.n_ctx = kSessionPositions;
  options.threads = 1;
  options.kv_type = kv_type;
  return std::make_unique<Session>(session_model(), options);
}

const std::vector<TokenId>& measured_text() {
  static const std::vector<TokenId> text = [] {
    std::vector<TokenId> ids(40);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }();
  return text;
}

PerplexityOptions windows() {
  PerplexityOptions options;
  options.window = 16;
  return options;
}

std::string repaired(std::string bytes) {
  if (bytes.size() < sizeof(std::uint64_t)) return bytes;
  Hash hash;
  const std::size_t content = bytes.size() - sizeof(std::uint64_t);
  hash.add(bytes.data(), content);
  bytes.replace(content, sizeof(std::uint64_t), bytes_of(hash.value()));
  return bytes;
}

void run_session_file(KvType kv_type, const std::string& path) {
  const auto session = session_of(kv_type);
  try {
    session->load(path);
  } catch (const Error&) {
    require(session->tokens().empty(), "tokens out of a refused file");
  }
  const std::size_t n = session->tokens().size();
  require(n <= kSessionPositions, "more tokens than positions");
  static const MemoryDirectory directory;
  session->save(directory.path("again"));
  const auto other = session_of(kv_type);
  other->load(directory.path("again"));
  require(std::ranges::equal(other->tokens(), session->tokens()), "other tokens the second time");
  if (n < kSessionPositions) {
    const TokenId next = 5;
    static_cast<void>(session->eval({&next, 1}));
  }
}

void run_log_probs(const std::string& path) {
  LogProbsReader reader(path, session_model());
  const TextWindows all(reader.text().size(), reader.options());
  const std::size_t rows = reader.logit_rows();
  require(rows > 0, "no rows");
  for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 3); ++i) {
    reader.begin_window(i);
    for (const float p : reader.logits(0, 1)) static_cast<void>(p);
  }
}

void run_measurement(const std::string& path) {
  const auto session = session_of(KvType::F16);
  Perplexity perplexity(*session, measured_text(), windows());
  perplexity.load(path);
  require(perplexity.done() <= perplexity.windows(), "more windows than there are");
  static_cast<void>(perplexity.next());
  static_cast<void>(perplexity.result());
}

void run_session(std::string_view input) {
  if (input.empty()) return;
  const auto kind = static_cast<std::uint8_t>(input[0]);
  std::string bytes(input.substr(1));
  if ((kind & kRepair) != 0) bytes = repaired(std::move(bytes));
  const MemoryFile file(bytes);
  const std::uint8_t which = (kind & ~kRepair) % kKinds;
  if (which < 3) return run_session_file(static_cast<KvType>(which), file.path());
  if (which == 3) return run_log_probs(file.path());
  run_measurement(file.path());
}

std::vector<std::string> session_seeds() {
  const MemoryDirectory directory;
  std::vector<std::string> out;
  const auto add = [&](int kind, const std::string& bytes) {
    out.push_back(std::string(1, static_cast<char>(kind)) + bytes);
    out.push_back(std::string(1, static_cast<char>(kind | kRepair)) + bytes);
  };
  for (const KvType kv_type : {KvType::F16, KvType::F32, KvType::Q8_0}) {
    const auto session = session_of(kv_type);
    session->eval(std::span(measured_text()).first(7));
    session->save(directory.path("session"));
    add(static_cast<int>(kv_type), directory.read("session"));
  }
  const auto session = session_of(KvType::F16);
  Perplexity perplexity(*session, measured_text(), windows());
  {
    LogProbsWriter writer(directory.path("probs"), session_model(), measured_text(), windows());
    perplexity.write_to(writer);
    while (perplexity.next()) continue;
    writer.finish();
  }
  add(3, directory.read("probs"));
  perplexity.save(directory.path("state"));
  add(4, directory.read("state"));
  return out;
}

}  // namespace

const Target kSession{"session", run_session, session_seeds};

}  // namespace cria::fuzz
