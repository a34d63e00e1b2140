# Install rules and the CMake package: find_package(cria) gives the target cria::cria.

add_library(cria_all INTERFACE)
add_library(cria::cria ALIAS cria_all)
set_target_properties(cria_all PROPERTIES EXPORT_NAME cria)
target_link_libraries(cria_all INTERFACE cria_engine cria_tokenizer cria_model cria_kernels)

install(TARGETS cria_all cria_engine cria_tokenizer cria_model cria_kernels EXPORT criaTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS cria_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(room kernels model tokenizer engine)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${room}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cria/${room}
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES data/cria-demo-Q8_0.gguf data/cria-demo.md DESTINATION ${CMAKE_INSTALL_DATADIR}/cria)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_package_config_file(cmake/criaConfig.cmake.in ${PROJECT_BINARY_DIR}/criaConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cria)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/criaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/criaConfig.cmake ${PROJECT_BINARY_DIR}/criaConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cria)
install(EXPORT criaTargets NAMESPACE cria:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cria)
