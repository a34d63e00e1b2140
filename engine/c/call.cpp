#include "engine/c/call.h"

#include <new>

#include "engine/constrain/constraint.h"
#include "engine/execute/machine.h"
#include "engine/session.h"

namespace cria::c_api {
namespace {

thread_local std::string last_error;

cria_status report(cria_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {  // what it said before stays
  }
  return status;
}

}  // namespace

cria_status report_exception() noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return report(failure.status, failure.what());
  } catch (const ContextOverflow& error) {
    return report(CRIA_ERROR_CONTEXT, error.what());
  } catch (const ConstraintError& error) {
    return report(CRIA_ERROR_CONSTRAINT, error.what());
  } catch (const Error& error) {
    return report(CRIA_ERROR_DATA, error.what());
  } catch (const std::bad_alloc&) {
    return report(CRIA_ERROR_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return report(CRIA_ERROR_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return report(CRIA_ERROR_INTERNAL, error.what());
  } catch (...) {
    return report(CRIA_ERROR_INTERNAL, "an exception of no known kind");
  }
}

}  // namespace cria::c_api

const char* cria_last_error(void) { return cria::c_api::last_error.c_str(); }

const char* cria_version(void) { return CRIA_VERSION; }

const char* cria_isa(void) {
  try {
    return cria::kernels_in_use().isa.data();  // of a literal
  } catch (...) {
    return "";
  }
}
