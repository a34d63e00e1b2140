#include "tools/serve/http/message_parser.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <limits>

namespace cria::serve {
namespace {

namespace http = boost::beast::http;

/// Of string_body only the growth differs: what is declared takes no memory before it has come.
struct ArrivingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>& /*head*/, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>& /*length*/, boost::system::error_code& error) {
      error = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      const std::size_t before = body_.size();
      for (auto at = boost::asio::buffer_sequence_begin(buffers);
           at != boost::asio::buffer_sequence_end(buffers); ++at)
        body_.append(static_cast<const char*>(boost::asio::const_buffer(*at).data()),
                     boost::asio::const_buffer(*at).size());
      return body_.size() - before;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string text_of(const boost::beast::string_view& text) { return {text.data(), text.size()}; }

Refusal bad(std::string message) { return {400, std::move(message)}; }

/// What Beast lets through in the fields that say where a body ends, and in Host.
Refusal check_fields(const ParsedHead& head) {
  std::size_t hosts = 0, encodings = 0;
  bool length = false;
  for (const auto& [name, value] : head.fields) {
    if (name == "host") ++hosts;
    if (name == "content-length") {
      length = true;
      if (value.empty() ||
          !std::ranges::all_of(value, [](unsigned char c) { return std::isdigit(c); }))
        return bad("Content-Length is no number");
    }
    if (name == "transfer-encoding") {
      ++encodings;
      if (lower_case(value) != "chunked") return bad("Transfer-Encoding is not chunked");
    }
  }
  if (encodings > 0 && length) return bad("both Content-Length and Transfer-Encoding are given");
  if (encodings > 1) return bad("Transfer-Encoding is given twice");
  if (encodings > 0 && head.version < 11) return bad("HTTP/1.0 has no Transfer-Encoding");
  if (hosts > 1) return bad("Host is given twice");
  if (hosts == 0 && head.version >= 11) return bad("Host is missing");
  return {};
}

}  // namespace

struct MessageParser::Reader {
  Reader() {
    parser.header_limit(2 * HeadScanner::kHead);                   // HeadScanner has looked
    parser.body_limit(std::numeric_limits<std::uint64_t>::max());  // limit_body() follows
    parser.eager(false);
  }
  http::request_parser<ArrivingBody> parser;
};

MessageParser::MessageParser() : reader_(std::make_unique<Reader>()) {}
MessageParser::~MessageParser() = default;

Refusal MessageParser::read_head(std::string_view bytes, ParsedHead& head) {
  boost::system::error_code error;
  auto& parser = reader_->parser;
  parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error) return bad("the head is malformed (" + error.message() + ")");
  if (!parser.is_header_done()) return bad("the head is malformed");
  const auto& message = parser.get();
  head.method = text_of(message.method_string());
  head.target = text_of(message.target());
  head.version = message.version();
  for (const auto& field : message)
    head.fields.emplace_back(lower_case(text_of(field.name_string())), text_of(field.value()));
  if (Refusal refusal = check_fields(head)) return refusal;
  head.chunked = parser.chunked();
  if (const auto length = parser.content_length(); length && !head.chunked) head.length = *length;
  head.keep_alive = parser.keep_alive();
  parser.eager(true);
  return {};
}

void MessageParser::limit_body(std::uint64_t bytes) { reader_->parser.body_limit(bytes); }

Refusal MessageParser::read_body(std::string_view bytes, std::size_t& taken) {
  constexpr std::size_t kLongestChunkHead =
      16 << 10;  // with extensions, or the fields behind the last chunk
  auto& parser = reader_->parser;
  boost::system::error_code error;
  taken = 0;
  while (!parser.is_done() && taken < bytes.size()) {
    const std::size_t n =
        parser.put(boost::asio::buffer(bytes.data() + taken, bytes.size() - taken), error);
    taken += n;
    if (error == http::error::need_more) break;
    if (error == http::error::body_limit)
      return {413, "the body is too large", "request_too_large"};
    if (error) return bad("the body is malformed (" + error.message() + ")");
  }
  if (!parser.is_done() && bytes.size() - taken > kLongestChunkHead)
    return bad("a chunk's head is too long");
  return {};
}

bool MessageParser::done() const { return reader_->parser.is_done(); }
std::string& MessageParser::body() { return reader_->parser.get().body(); }

}  // namespace cria::serve
