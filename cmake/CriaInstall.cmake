# Installs the libraries (libcria.a for C++ and C, libcria.so for C), public headers and a CMake
# package with the targets cria::cria and cria::c. Also installs pkg-config files, the program, the
# demo model and a systemd unit. Components: program, library, development; packaging/deb.cmake
# makes a package of each.

# Each library has the objects of all modules.
set(modules "")
foreach(module kernels model tokenizer constrain engine evaluate quantize convert c_interface)
  list(APPEND modules $<TARGET_OBJECTS:cria_${module}>)
endforeach()

# libcria.a: everything.
add_library(cria_library STATIC ${modules})
add_library(cria::cria ALIAS cria_library)
set_target_properties(cria_library PROPERTIES EXPORT_NAME cria OUTPUT_NAME cria)
target_compile_features(cria_library PUBLIC cxx_std_20)
target_include_directories(cria_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Names, not paths: the machine that links the installed library may have them elsewhere.
target_link_libraries(cria_library PRIVATE TBB::tbb pcre2-8 unistring $<BUILD_INTERFACE:cria_flags>)

# libcria.so exports <cria/cria.h> only. Within a SONAME the exports only grow.
add_library(cria_shared SHARED ${modules})
add_library(cria::c ALIAS cria_shared)
set_target_properties(cria_shared PROPERTIES EXPORT_NAME c OUTPUT_NAME cria VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                             LINKER_LANGUAGE CXX LINK_DEPENDS ${PROJECT_SOURCE_DIR}/engine/c/exports.map)
target_include_directories(cria_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(cria_shared PRIVATE TBB::tbb pcre2-8 unistring $<BUILD_INTERFACE:cria_flags>)
if(CRIA_FUZZ)  # the coverage runtime is linked to programs only
  set_target_properties(cria_shared PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
target_link_options(cria_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/engine/c/exports.map)

install(TARGETS cria_library cria_shared EXPORT criaTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
install(TARGETS cria_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES data/cria-demo-Q8_0.gguf data/cria-demo.md DESTINATION ${CMAKE_INSTALL_DATADIR}/cria)
configure_file(cmake/cria-serve.service.in ${PROJECT_BINARY_DIR}/cria-serve.service @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cria-serve.service DESTINATION lib/systemd/system)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

# Public headers: path in the tree = installed name, as in #include <cria/session.h>.
set(CRIA_PUBLIC_HEADERS
    engine/c/cria.h=cria.h
    engine/constrain/constraint.h=constraint.h
    engine/constrain/constraint_error.h=constraint_error.h
    engine/engine.h=engine.h
    engine/scheduler.h=scheduler.h
    engine/session.h=session.h
    engine/vectors.h=vectors.h
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

# Documentation of the public headers: target `doc`.
find_program(CRIA_DOXYGEN doxygen)
if(CRIA_DOXYGEN)
  list(TRANSFORM CRIA_PUBLIC_HEADERS REPLACE "=.*" "" OUTPUT_VARIABLE CRIA_DOCUMENTED)
  list(TRANSFORM CRIA_DOCUMENTED PREPEND ${PROJECT_SOURCE_DIR}/)
  list(JOIN CRIA_DOCUMENTED " " CRIA_DOCUMENTED)
  configure_file(packaging/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
  add_custom_target(doc COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/doc
                        COMMAND ${CRIA_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile VERBATIM)
endif()

configure_package_config_file(cmake/criaConfig.cmake.in ${PROJECT_BINARY_DIR}/criaConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cria)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/criaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/criaConfig.cmake ${PROJECT_BINARY_DIR}/criaConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cria)
install(EXPORT criaTargets NAMESPACE cria:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cria)

# cria.pc: C++ and C, static; cria-c.pc: C, shared.
foreach(directory LIB INCLUDE)
  set(CRIA_PC_${directory}DIR "\${prefix}/${CMAKE_INSTALL_${directory}DIR}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${directory}DIR}")
    set(CRIA_PC_${directory}DIR "${CMAKE_INSTALL_${directory}DIR}")
  endif()
endforeach()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(CRIA_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()  # relocatable
  file(RELATIVE_PATH CRIA_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(PREPEND CRIA_PC_PREFIX "\${pcfiledir}/")
endif()
foreach(package cria cria-c)
  configure_file(cmake/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

include(packaging/deb.cmake)
