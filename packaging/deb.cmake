# Debian packages cria, cria-mpi, libcria0, libcria-dev and python3-cria:
# cmake --preset deb && cmake --build --preset deb && (cd build/deb && cpack -G DEB)
# packaging/try_deb.sh installs and purges them in a separate Debian.
set(CRIA_MAINTAINER "The cria authors <maintainers@cria.invalid>" CACHE STRING "Maintainer of the Debian packages")
set(deb ${PROJECT_SOURCE_DIR}/packaging/debian)
set(library libcria${PROJECT_VERSION_MAJOR})
set(revision 1)

install(DIRECTORY python/cria DESTINATION lib/python3/dist-packages COMPONENT python EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
configure_file(packaging/debian/METADATA.in ${PROJECT_BINARY_DIR}/METADATA @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/METADATA DESTINATION lib/python3/dist-packages/cria-${PROJECT_VERSION}.dist-info
        COMPONENT python EXCLUDE_FROM_ALL)
install(FILES python/README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/python3-cria COMPONENT python EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cria)
set(CPACK_PACKAGE_CONTACT "${CRIA_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL program library development python)
if(CRIA_HAS_MPI)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${revision})
set(CPACK_DEBIAN_PACKAGE_SOURCE cria)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # for libraries
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/debian_files.cmake)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME cria)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA ${deb}/cria/postinst ${deb}/cria/prerm ${deb}/cria/postrm ${deb}/cria/conffiles)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "cria answers, serves, measures and quantizes LLaMA-family language models on
ordinary CPUs. The same file, prompt and seed give the same bytes on any
machine and any number of threads. A small demonstration model is included.
.
The systemd unit cria-serve is installed, and not started.")

# A separate package, since one machine needs no MPI.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS cria-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_NAME cria-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "cria (= ${PROJECT_VERSION}-${revision}), openmpi-bin")
set(CPACK_DEBIAN_MPI_DESCRIPTION "cria runs LLaMA-family language models on ordinary CPUs. With this module it runs
one model on several machines: mpirun -n 4 --hostfile hosts cria run ...")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${deb}/libcria0/triggers)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "cria runs LLaMA-family language models on ordinary CPUs. This is its shared
library, with the C functions of <cria/cria.h>.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcria-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION}-${revision}), libtbb-dev, libpcre2-dev, libunistring-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "cria runs LLaMA-family language models on ordinary CPUs. These are its
headers, the static library for C++, CMake and pkg-config files.")

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-cria)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${library} (>= ${PROJECT_VERSION}), python3 (>= 3.9), python3-numpy")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${deb}/python3-cria/postinst ${deb}/python3-cria/prerm)
set(CPACK_DEBIAN_PYTHON_DESCRIPTION "cria runs LLaMA-family language models on ordinary CPUs. This is its Python
package, on the C library.")

set(packages program:cria library:${library} development:libcria-dev python:python3-cria)
if(CRIA_HAS_MPI)
  list(APPEND packages mpi:cria-mpi)
endif()
string(TIMESTAMP changed "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(packaging/debian/debian_files.cmake.in ${PROJECT_BINARY_DIR}/debian_files.cmake @ONLY)
include(CPack)
