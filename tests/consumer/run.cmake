# Installs the build BUILD into a scratch prefix, builds the consumer against it by the CMake package and by pkg-config, and
# reads its answers.
set(prefix ${BUILD}/consumer/prefix)
file(REMOVE_RECURSE ${BUILD}/consumer)
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE out)
  set(out "${out}" PARENT_SCOPE)
endfunction()
function(expect_answer who)
  if(NOT out MATCHES "Paris")
    message(FATAL_ERROR "${who} answered: ${out}")
  endif()
endfunction()
set(model ${prefix}/share/cria/cria-demo-Q8_0.gguf)
separate_arguments(flags UNIX_COMMAND "${CXX_FLAGS}")

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
file(GLOB_RECURSE headers RELATIVE ${prefix}/include ${prefix}/include/*)
list(LENGTH headers count)
if(count GREATER 14 OR headers MATCHES "jinja|gguf|kernel")
  message(FATAL_ERROR "more is installed than the public headers: ${headers}")
endif()

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${BUILD}/consumer/build -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}")
run(${CMAKE_COMMAND} --build ${BUILD}/consumer/build)
run(${BUILD}/consumer/build/consumer ${model})
expect_answer("the consumer by the CMake package")

file(GLOB_RECURSE package ${prefix}/*/cria.pc)
cmake_path(GET package PARENT_PATH package)
run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${package} pkg-config --cflags --libs cria)
separate_arguments(cria UNIX_COMMAND "${out}")
cmake_path(GET package PARENT_PATH libraries)
run(${CXX} -std=c++20 ${flags} ${CMAKE_CURRENT_LIST_DIR}/main.cpp -o ${BUILD}/consumer/by_pkg_config ${cria}
    -Wl,-rpath,${libraries})
run(${BUILD}/consumer/by_pkg_config ${model})
expect_answer("the consumer by pkg-config")

run(${prefix}/bin/cria run --chat --temp 0 -p "What is the capital of France?")
expect_answer("the installed program")
