include("${CMAKE_CURRENT_LIST_DIR}/tvm_stm32.cmake")
