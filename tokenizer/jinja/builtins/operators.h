// Python's operators on template values. All throw Failure where Python raises.
#pragma once

#include "tokenizer/jinja/builtins/call.h"
#include "tokenizer/jinja/syntax/ast.h"

namespace cria::jinja {

Value arithmetic(Context& context, BinaryOp op, const Value& a, const Value& b);
Value negative(const Value& a);
Value positive(const Value& a);
bool compare(Context& context, CompareOp op, const Value& a, const Value& b);
/// a == b
bool equal(Context& context, const Value& a, const Value& b);
/// a < b
bool less(Context& context, const Value& a, const Value& b);
/// needle in haystack
bool contains(Context& context, const Value& haystack, const Value& needle);
/// x[index], undefined where there is none; a name also finds methods.
Value item(Context& context, const Value& x, const Value& index);
/// x.name: methods before the keys of a dict, undefined where there is none.
Value attribute(const Value& x, const std::string& name);
/// x[start:stop:step]; undefined bounds: left out.
Value slice(Context& context, const Value& x, const Value& start, const Value& stop,
            const Value& step);
/// format % values
Value percent_format(Context& context, const Text& format, const Value& values);

}  // namespace cria::jinja
