# Headers, libraries and the package that find_package(slipstream) reads. In a wheel they lie in slipstream/sdk.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

if(SKBUILD)
  set(sdk slipstream/sdk)
  set(libdir ${sdk}/lib)
else()
  set(sdk .)
  set(libdir ${CMAKE_INSTALL_LIBDIR})
endif()
set(includedir ${sdk}/include)
set(packagedir ${libdir}/cmake/slipstream)

install(TARGETS slipstream_static ARCHIVE DESTINATION ${libdir} COMPONENT sdk)
install(TARGETS slipstream_shared LIBRARY DESTINATION ${libdir} COMPONENT sdk)
install(DIRECTORY include/slipstream DESTINATION ${includedir} COMPONENT sdk FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${sdk}/share/slipstream COMPONENT sdk)

set(SLIPSTREAM_INCLUDE_DIR ${includedir})
set(SLIPSTREAM_LIBRARY_DIR ${libdir})
configure_package_config_file(cmake/slipstreamConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/slipstreamConfig.cmake
  INSTALL_DESTINATION ${packagedir}
  PATH_VARS SLIPSTREAM_INCLUDE_DIR SLIPSTREAM_LIBRARY_DIR
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/slipstreamConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/slipstreamConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/slipstreamConfigVersion.cmake
  DESTINATION ${packagedir} COMPONENT sdk)

# pkg-config, for builds without CMake.
set(pkgconfigdir ${libdir}/pkgconfig)
file(RELATIVE_PATH SLIPSTREAM_PC_PREFIX /${pkgconfigdir} /${sdk})
string(REGEX REPLACE "/$" "" SLIPSTREAM_PC_PREFIX "${SLIPSTREAM_PC_PREFIX}")
file(RELATIVE_PATH SLIPSTREAM_PC_INCLUDE /${sdk} /${includedir})
file(RELATIVE_PATH SLIPSTREAM_PC_LIB /${sdk} /${libdir})
configure_file(cmake/slipstream.pc.in ${CMAKE_CURRENT_BINARY_DIR}/slipstream.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/slipstream.pc DESTINATION ${pkgconfigdir} COMPONENT sdk)
