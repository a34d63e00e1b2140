# What is installed: one library, its public headers, a CMake package (find_package(cria) gives the target cria::cria), a
# pkg-config file, the program, the bundled model, and a unit for systemd.

option(CRIA_SHARED "Install libcria as a shared library" ${BUILD_SHARED_LIBS})
set(kind STATIC)
if(CRIA_SHARED)
  set(kind SHARED)
endif()

# The rooms are libraries for this build only; outside they are one.
add_library(cria_library ${kind} $<TARGET_OBJECTS:cria_engine> $<TARGET_OBJECTS:cria_tokenizer> $<TARGET_OBJECTS:cria_model>
                                 $<TARGET_OBJECTS:cria_kernels>)
add_library(cria::cria ALIAS cria_library)
set_target_properties(cria_library PROPERTIES EXPORT_NAME cria OUTPUT_NAME cria VERSION ${PROJECT_VERSION}
                                              SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(cria_library PUBLIC cxx_std_20)
target_include_directories(cria_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# By name, not by path: an installed static library links them wherever that machine keeps them.
target_link_libraries(cria_library PRIVATE TBB::tbb pcre2-8 unistring $<BUILD_INTERFACE:cria_flags>)

install(TARGETS cria_library EXPORT criaTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS cria_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES data/cria-demo-Q8_0.gguf data/cria-demo.md DESTINATION ${CMAKE_INSTALL_DATADIR}/cria)
configure_file(packaging/cria-serve.service.in ${PROJECT_BINARY_DIR}/cria-serve.service @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cria-serve.service DESTINATION lib/systemd/system)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The public interface, as it is named in the tree and as it is installed: #include <cria/session.h>.
set(CRIA_PUBLIC_HEADERS
    engine/constrain/constraint.h=constraint.h
    engine/constrain/constraint_error.h=constraint_error.h
    engine/engine.h=engine.h
    engine/scheduler.h=scheduler.h
    engine/session.h=session.h
    engine/lora/lora_file.h=lora_file.h
    engine/model.h=model.h
    engine/sample/options.h=sampler_options.h
    model/error.h=error.h
    model/token_id.h=token_id.h
    tokenizer/chat/answer_format.h=answer_format.h
    tokenizer/chat/chat_template.h=chat_template.h
    tokenizer/chat/tool_call.h=tool_call.h
    tokenizer/tokenizer.h=tokenizer.h)
configure_file(cmake/install_headers.cmake.in ${PROJECT_BINARY_DIR}/install_headers.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/install_headers.cmake)

configure_package_config_file(cmake/criaConfig.cmake.in ${PROJECT_BINARY_DIR}/criaConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cria)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/criaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/criaConfig.cmake ${PROJECT_BINARY_DIR}/criaConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cria)
install(EXPORT criaTargets NAMESPACE cria:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cria)

# A static library leaves its own libraries to whoever links it.
set(CRIA_PRIVATE_LIBS "-ltbb -lpcre2-8 -lunistring")
set(CRIA_PC_LIBS "-lcria")
if(NOT CRIA_SHARED)
  string(APPEND CRIA_PC_LIBS " ${CRIA_PRIVATE_LIBS}")
endif()
file(RELATIVE_PATH CRIA_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)  # the package may be moved
configure_file(cmake/cria.pc.in ${PROJECT_BINARY_DIR}/cria.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cria.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
