# SPDX-License-Identifier: Apache-2.0
# Stands in for CANN's CMake package: its functions for operator projects as far as one package with one operator calls them,
# with CANN's layout of a vendor's folder. Files go where CANN's functions put them.
if(NOT DEFINED ENV{ASCEND_HOME_PATH})
  message(FATAL_ERROR "ASCEND_HOME_PATH is not set")
endif()
set(FAKE_TOOLKIT $ENV{ASCEND_HOME_PATH})
set(ASCEND_AUTOGEN_PATH ${CMAKE_BINARY_DIR}/autogen)
file(MAKE_DIRECTORY ${ASCEND_AUTOGEN_PATH})

add_library(intf_pub INTERFACE)
target_include_directories(intf_pub SYSTEM INTERFACE ${FAKE_TOOLKIT}/include)
target_compile_features(intf_pub INTERFACE cxx_std_11)

function(npu_op_package name)
  cmake_parse_arguments(P "" "TYPE" "CONFIG" ${ARGN})
  cmake_parse_arguments(C "" "ENABLE_SOURCE_PACKAGE;ENABLE_BINARY_PACKAGE;ENABLE_CPACK;INSTALL_PATH" "" ${P_CONFIG})
  if(NOT P_TYPE STREQUAL "RUN" OR C_ENABLE_CPACK OR NOT C_ENABLE_BINARY_PACKAGE)
    message(FATAL_ERROR "the stand-in knows TYPE RUN with binaries and without CPack, got ${ARGN}")
  endif()
  set_property(GLOBAL PROPERTY FAKE_ROOT ${C_INSTALL_PATH}/packages/vendors/${name})
  file(WRITE ${CMAKE_BINARY_DIR}/version.info "custom_opp_compiler_version=0.0.stand-in\n")
  install(FILES ${CMAKE_BINARY_DIR}/version.info DESTINATION ${C_INSTALL_PATH}/packages/vendors/${name})
endfunction()

# As CANN's: at configure time, by C++11 and the old ABI unless COMPILE_OPTIONS say otherwise.
function(npu_op_code_gen)
  cmake_parse_arguments(G "" "PACKAGE;OUT_DIR" "SRC;COMPILE_OPTIONS" ${ARGN})
  execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} -shared -fPIC -D_GLIBCXX_USE_CXX11_ABI=0 -std=c++11 ${G_COMPILE_OPTIONS}
            -I${FAKE_TOOLKIT}/include ${G_SRC} -o ${G_OUT_DIR}/libascend_all_ops.so
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND ${ASCEND_PYTHON_EXECUTABLE} ${FAKE_TOOLKIT}/tools/op_build.py
            ${G_OUT_DIR}/libascend_all_ops.so ${G_OUT_DIR} ${ASCEND_COMPUTE_UNIT}
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(npu_op_library name kind)
  if(NOT kind MATCHES "^(ACLNN|TILING|GRAPH)$")
    message(FATAL_ERROR "npu_op_library: expected ACLNN, TILING or GRAPH, got ${kind}")
  endif()
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${name} PRIVATE intf_pub)
  set_property(GLOBAL PROPERTY FAKE_KIND_${name} ${kind})
endfunction()

function(npu_op_kernel_sources name)
  cmake_parse_arguments(K "" "OP_TYPE;KERNEL_FILE" "" ${ARGN})
  set_property(GLOBAL PROPERTY FAKE_KERNEL_FILE ${K_KERNEL_FILE})
  set_property(GLOBAL PROPERTY FAKE_OP_TYPE ${K_OP_TYPE})
endfunction()

# One object for all shapes, by the toolkit's own compiler. The real tools call it once for each tiling key.
function(npu_op_kernel_library name)
  cmake_parse_arguments(K "" "SRC_BASE;TILING_LIBRARY" "" ${ARGN})
  get_property(file GLOBAL PROPERTY FAKE_KERNEL_FILE)
  get_property(type GLOBAL PROPERTY FAKE_OP_TYPE)
  set(folder ${CMAKE_BINARY_DIR}/binary/asa_sparse_flash_attention)
  add_custom_target(binary
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND ${FAKE_TOOLKIT}/bin/bisheng -c -xasc --npu-arch=dav-2201 -std=c++17 -O3 -fPIC
            ${K_SRC_BASE}/${file} -o ${folder}/${type}_0.o
    COMMAND ${CMAKE_COMMAND} -E echo "{\"binFileName\": \"${type}_0\"}" > ${folder}/${type}_0.json)
  set_property(GLOBAL PROPERTY FAKE_KIND_${name} KERNEL)
endfunction()

function(fake_shared_library target source output folder)
  add_library(${target} SHARED $<TARGET_OBJECTS:${source}>)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output} LINKER_LANGUAGE CXX)
  install(TARGETS ${target} LIBRARY DESTINATION ${folder})
endfunction()

function(npu_op_package_add package)
  cmake_parse_arguments(A "" "TYPE" "LIBRARY;FILES" ${ARGN})
  get_property(root GLOBAL PROPERTY FAKE_ROOT)
  if(A_FILES)
    if(NOT A_TYPE STREQUAL "ACLNN")
      message(FATAL_ERROR "npu_op_package_add: the stand-in knows FILES of TYPE ACLNN, got ${A_TYPE}")
    endif()
    install(FILES ${A_FILES} DESTINATION ${root}/op_api/include)
    return()
  endif()
  set(tbe ${root}/op_impl/ai_core/tbe)
  foreach(one ${A_LIBRARY})
    get_property(kind GLOBAL PROPERTY FAKE_KIND_${one})
    if(kind STREQUAL "TILING")
      fake_shared_library(${package}_opmaster ${one} cust_opmaster_rt2.0 ${tbe}/op_tiling/lib/linux/${CMAKE_SYSTEM_PROCESSOR})
      add_custom_target(optiling_compat ALL COMMAND ln -sf
        lib/linux/${CMAKE_SYSTEM_PROCESSOR}/libcust_opmaster_rt2.0.so ${CMAKE_BINARY_DIR}/liboptiling.so)
      install(FILES ${CMAKE_BINARY_DIR}/liboptiling.so DESTINATION ${tbe}/op_tiling)
    elseif(kind STREQUAL "GRAPH")
      fake_shared_library(${package}_opsproto ${one} cust_opsproto_rt2.0 ${root}/op_proto/lib/linux/${CMAKE_SYSTEM_PROCESSOR})
    elseif(kind STREQUAL "ACLNN")
      fake_shared_library(${package}_opapi ${one} cust_opapi ${root}/op_api/lib)
      file(GLOB headers ${ASCEND_AUTOGEN_PATH}/aclnn_*.h)
      install(FILES ${headers} DESTINATION ${root}/op_api/include)
    elseif(kind STREQUAL "KERNEL")
      install(DIRECTORY ${CMAKE_BINARY_DIR}/binary/ DESTINATION ${tbe}/kernel/${ASCEND_COMPUTE_UNIT})
      install(FILES ${ASCEND_AUTOGEN_PATH}/aic-${ASCEND_COMPUTE_UNIT}-ops-info.json
        DESTINATION ${tbe}/config/${ASCEND_COMPUTE_UNIT})
    else()
      message(FATAL_ERROR "npu_op_package_add: expected a library of npu_op_*, got ${one}")
    endif()
  endforeach()
endfunction()
