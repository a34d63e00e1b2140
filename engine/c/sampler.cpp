// The C interface: samplers and constraints.
#include <utility>

#include "engine/c/objects.h"
#include "engine/model_parts.h"
#include "engine/sample/options.h"

namespace cria::c_api {
namespace {

const SamplerOption& number_named(std::string_view name) {
  const SamplerOptions defaults;
  const SamplerOption* const option = find_sampler_option(name);
  if (option != nullptr && sampler_number(defaults, *option)) return *option;
  std::string known;
  for (const SamplerOption& each : kSamplerOptions)
    if (sampler_number(defaults, each))
      known += (known.empty() ? "" : ", ") + std::string(each.name);
  throw Failure(CRIA_ERROR_ARGUMENT,
                "samplers have no " + printable(name) + ": expected one of " + known);
}

cria_status change(cria_sampler sampler, const std::function<void(SamplerOptions&)>& how) {
  return call([&] { object<SamplerObject>(sampler.id)->change(how); });
}

cria_status make_constraint(const char* text, cria_constraint* constraint,
                            std::shared_ptr<const Constraint> (*compile)(std::string_view)) {
  return call([&] {
    required(constraint, "constraint").id = 0;
    auto made = std::make_shared<ConstraintObject>();
    made->constraint = compile(&required(text, "text"));
    constraint->id = handle(std::move(made));
  });
}

}  // namespace

SamplerOptions default_sampler(const Model& model) {
  SamplerOptions options;
  set_sampling_defaults(model.file(), options);
  return options;
}

SamplerOptions SamplerObject::options() const {
  const std::scoped_lock lock(mutex_);
  return options_;
}

void SamplerObject::change(const std::function<void(SamplerOptions&)>& change) {
  const std::scoped_lock lock(mutex_);
  SamplerOptions changed = options_;
  change(changed);
  check(changed, n_vocab);
  options_ = std::move(changed);
}

}  // namespace cria::c_api

using namespace cria::c_api;

cria_status cria_sampler_create(cria_model model, cria_sampler* sampler) {
  return call([&] {
    required(sampler, "sampler").id = 0;
    const auto of = object<ModelObject>(model.id);
    sampler->id = handle(
        std::make_shared<SamplerObject>(of->model->vocabulary_size(), default_sampler(*of->model)));
  });
}

cria_status cria_sampler_free(cria_sampler sampler) {
  return call([&] { removed<SamplerObject>(sampler.id); });
}

cria_status cria_sampler_set(cria_sampler sampler, const char* name, double value) {
  return change(sampler, [&](cria::SamplerOptions& options) {
    cria::set_sampler_number(options, number_named(&required(name, "name")), value);
  });
}

cria_status cria_sampler_set_seed(cria_sampler sampler, uint64_t seed) {
  return change(sampler, [&](cria::SamplerOptions& options) { options.seed = seed; });
}

cria_status cria_sampler_set_steps(cria_sampler sampler, const char* steps) {
  return change(sampler, [&](cria::SamplerOptions& options) {
    options.steps = cria::parse_sampler_steps(&required(steps, "steps"));
  });
}

cria_status cria_sampler_set_bias(cria_sampler sampler, cria_token token, float bias) {
  return change(sampler, [&](cria::SamplerOptions& options) {
    std::erase_if(options.logit_bias, [&](const auto& known) { return known.first == token; });
    options.logit_bias.emplace_back(token, bias);
  });
}

cria_status cria_sampler_set_dry_breakers(cria_sampler sampler, const char* const* texts,
                                          size_t n_texts) {
  return change(sampler, [&](cria::SamplerOptions& options) {
    options.dry_sequence_breakers.clear();
    for (const char* const text : array(texts, n_texts, "texts"))
      options.dry_sequence_breakers.emplace_back(&required(text, "a text"));
  });
}

cria_status cria_constraint_json_schema(const char* schema, cria_constraint* constraint) {
  return make_constraint(schema, constraint, cria::Constraint::json_schema);
}

cria_status cria_constraint_grammar(const char* grammar, cria_constraint* constraint) {
  return make_constraint(grammar, constraint, cria::Constraint::gbnf);
}

cria_status cria_constraint_regex(const char* expression, cria_constraint* constraint) {
  return make_constraint(expression, constraint, cria::Constraint::regex);
}

cria_status cria_constraint_check(cria_constraint constraint, const char* text, size_t text_size,
                                  int32_t* accepts, int32_t* begins) {
  return call([&] {
    const auto of = object<ConstraintObject>(constraint.id);
    const std::string_view bytes = cria::c_api::text(text, text_size, "text");
    if (accepts != nullptr) *accepts = of->constraint->accepts(bytes) ? 1 : 0;
    if (begins != nullptr) *begins = of->constraint->begins(bytes) ? 1 : 0;
  });
}

cria_status cria_constraint_free(cria_constraint constraint) {
  return call([&] { removed<ConstraintObject>(constraint.id); });
}
