// Which handler a path and a method mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/http/exchange.h"

namespace cria::serve {

class RouteTable {
 public:
  RouteTable() = default;
  explicit RouteTable(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  ///< null: the path or the method is not there
    std::string parameter;
    std::string allowed;  ///< where the path is there: its methods, as the field Allow has them
  };
  /// method: as sent; HEAD finds what GET finds.
  [[nodiscard]] Match find(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace cria::serve
