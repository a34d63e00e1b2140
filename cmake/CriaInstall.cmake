# install rules and the CMake package: find_package(cria), target cria::cria
