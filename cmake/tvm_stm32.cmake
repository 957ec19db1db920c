#[=======================================================================[
Neural networks as libraries of a CMake project (3.22 or newer); docs/cmake.md.

  find_package(tvm_stm32 CONFIG REQUIRED)
  tvm_stm32_add_model(kws MODEL models/kws.tflite CPU cortex-m4)
  target_link_libraries(app kws)

This file also works alone, as a copy in the project. It starts no process at configure time: files are named
beforehand, and `tvm-stm32` runs when the build needs it. The program is, in this order: TVM_STM32_COMMAND (a program,
or a list such as "python;-m;tvm_stm32"; also an environment variable), the checkout or installation around this file,
`tvm-stm32` in PATH. Toolchain files do not hide it.
#]=======================================================================]

include_guard(GLOBAL)
cmake_policy(PUSH)
cmake_policy(VERSION 3.22...4.0)

#[=======================================================================[
tvm_stm32_add_model(<target> MODEL <file> [BOARD <board> | CPU <core>] ...)

Makes the static library <target> of a network. What links it finds `<name>.h` and the ai_* runtime.

  MODEL <file>         a .tflite, .onnx, .relay, .json or .pt2 file, or a Model Library Format archive
  BOARD <board>        a name, or a board file: its core, and the memories the network has to fit
  CPU <core>           cortex-m4 and so on, or host. With neither, the variables TVM_STM32_BOARD or TVM_STM32_CPU
  NAME <name>          the network's C name (default: the target's)
  C_API <interface>    ai (default), x-cube-ai, st-ai
  LEVEL <level>        time (default), balanced, ram, size
  KERNELS <language>   asm (default), c
  MAX_RAM <bytes>      what the arena may have: 32768, 32K
  PARAMS <file>        weights of a Relay model
  WEIGHTS <how>        array (default), incbin, external
  ALIGNMENT <bytes>    8 (default), 16, 32
  POOLS <file>         memory pools, or `board`
  PINS <tensor=pool>...
  FORMS <operator=form>...
  EXTERNAL_IO <name>...
  OPTIONS <option>...  any others of `tvm-stm32 compile`
  LINK_TO <target>...  targets that link the library, whatever signature of target_link_libraries they use

Flags are those of the project; add others to <target> and to ai_runtime, or name interface libraries that have them
for all in the variable TVM_STM32_LINK_LIBRARIES. The C files are in the folder that the
property TVM_STM32_FOLDER of <target> names.
#]=======================================================================]
function(tvm_stm32_add_model target)
  set(where "tvm_stm32_add_model(${target})")
  set(single MODEL NAME BOARD CPU C_API LEVEL KERNELS MAX_RAM PARAMS WEIGHTS ALIGNMENT POOLS)
  set(several PINS FORMS EXTERNAL_IO OPTIONS LINK_TO)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "${single}" "${several}")
  _tvm_stm32_check_call("${where}" "${target}" "${arg_UNPARSED_ARGUMENTS}" "${arg_KEYWORDS_MISSING_VALUES}"
    "${single};${several}")
  _tvm_stm32_check_word("${where}" LEVEL "${arg_LEVEL}" time balanced ram size)
  _tvm_stm32_check_word("${where}" KERNELS "${arg_KERNELS}" asm c)
  _tvm_stm32_check_word("${where}" C_API "${arg_C_API}" ai x-cube-ai st-ai)
  _tvm_stm32_check_word("${where}" WEIGHTS "${arg_WEIGHTS}" array incbin external)
  _tvm_stm32_check_word("${where}" ALIGNMENT "${arg_ALIGNMENT}" 8 16 32)
  _tvm_stm32_check_options("${where}" "${arg_OPTIONS}")
  if(NOT arg_MODEL)
    _tvm_stm32_error("${where}: there is no MODEL" "" "MODEL models/${target}.tflite")
  endif()
  if(arg_BOARD AND arg_CPU)
    _tvm_stm32_error("${where}: BOARD and CPU are given both" "a board says which CPU it has" "give one")
  elseif(NOT arg_BOARD AND NOT arg_CPU)
    set(arg_BOARD "${TVM_STM32_BOARD}")
    if(NOT arg_BOARD)
      set(arg_CPU "${TVM_STM32_CPU}")
    endif()
    if(NOT arg_BOARD AND NOT arg_CPU)
      _tvm_stm32_error("${where}: there is neither BOARD nor CPU" "code is generated for one core"
        "CPU cortex-m4, or set(TVM_STM32_CPU cortex-m4) for all networks")
    endif()
  endif()
  set(name "${arg_NAME}")
  if(NOT name)
    set(name "${target}")
  endif()
  if(NOT name MATCHES "^[a-z][a-z0-9]*(_[a-z0-9]+)*$")
    _tvm_stm32_error("${where}: '${name}' is no C name of a network" "lower case letters, digits and single _, a letter first"
      "NAME with another one")
  endif()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/tvm_stm32/${target}")
  _tvm_stm32_input(model "${where}" MODEL "${arg_MODEL}")
  set(inputs "${model}")
  set(options --name "${name}")
  if(arg_BOARD MATCHES "[/\\]|\\.ya?ml$")
    _tvm_stm32_input(arg_BOARD "${where}" BOARD "${arg_BOARD}")
    list(APPEND inputs "${arg_BOARD}")
  endif()
  if(arg_PARAMS)
    _tvm_stm32_input(arg_PARAMS "${where}" PARAMS "${arg_PARAMS}")
    list(APPEND inputs "${arg_PARAMS}")
  endif()
  if(arg_POOLS AND NOT arg_POOLS MATCHES "^(board|archive)$")
    _tvm_stm32_input(arg_POOLS "${where}" POOLS "${arg_POOLS}")
    list(APPEND inputs "${arg_POOLS}")
  endif()
  foreach(pair IN ITEMS BOARD=--board CPU=--cpu C_API=--c-api LEVEL=-O KERNELS=--kernels MAX_RAM=--max-ram
      PARAMS=--params WEIGHTS=--weights ALIGNMENT=--alignment POOLS=--pools PINS=--pin FORMS=--set
      EXTERNAL_IO=--external-io)
    string(REPLACE "=" ";" pair "${pair}")
    list(GET pair 0 keyword)
    list(GET pair 1 option)
    foreach(value IN LISTS arg_${keyword})
      list(APPEND options "${option}" "${value}")
    endforeach()
  endforeach()

  set(core "${name}")
  set(runtime ai_runtime)
  set(interface)
  if(arg_C_API STREQUAL "x-cube-ai")
    set(interface ${name}.c ${name}_data.c ${name}_tvm_st.c
      ${name}.h ${name}_config.h ${name}_data.h ${name}_data_params.h)
  elseif(arg_C_API STREQUAL "st-ai")
    set(interface ${name}.c ${name}_data.c ${name}_tvm_st.c stai_${name}.c
      ${name}.h ${name}_data.h ${name}_details.h stai_${name}.h)
  endif()
  if(interface)
    set(core "${name}_tvm")
    string(REPLACE "-" "_" runtime "ai_runtime_${arg_C_API}")
  endif()
  set(outputs ${core}.c ${core}_data.c ${core}.h ${core}_data.h ${interface}
    ${core}_report.json ${core}_report.txt ${name}.cmake ${name}.mk)
  if(arg_WEIGHTS MATCHES "^(incbin|external)$")
    list(APPEND outputs ${core}_weights.bin)
  endif()
  list(TRANSFORM outputs PREPEND "${folder}/")

  tvm_stm32_add_runtime(C_API "${arg_C_API}")
  _tvm_stm32_command(tool "${where}")
  set(stamp "${folder}/${target}.stamp")
  set(arena "$<TARGET_PROPERTY:${target},TVM_STM32_ARENA>")
  add_custom_command(
    OUTPUT "${stamp}"
    BYPRODUCTS ${outputs}
    COMMAND ${tool} compile "${model}" -o "${folder}" --no-runtime
      --depfile "${stamp}.d" --stamp "${stamp}" --one-rule
      ${options} "$<$<BOOL:${arena}>:--shared-arena=${arena}>" ${arg_OPTIONS}
    DEPENDS ${inputs}
    DEPFILE "${stamp}.d"
    COMMENT "Generating network ${name}"
    COMMAND_EXPAND_LISTS
    VERBATIM)
  set(sources ${outputs})
  list(FILTER sources INCLUDE REGEX "\\.[ch]$")
  _tvm_stm32_library(${target} "${folder}" "${stamp}" ${sources})
  set_target_properties(${target} PROPERTIES TVM_STM32_NAME "${name}" TVM_STM32_C_API "${arg_C_API}")
  _tvm_stm32_link(${target} ${runtime})
  if(arg_WEIGHTS STREQUAL "incbin")
    # The compiler's own list of dependencies lacks what the assembler includes.
    set_property(SOURCE "${folder}/${core}_data.c" APPEND PROPERTY OBJECT_DEPENDS "${folder}/${core}_weights.bin")
  endif()
  foreach(user IN LISTS arg_LINK_TO)
    if(NOT TARGET ${user})
      _tvm_stm32_error("${where}: LINK_TO '${user}' is no target" "" "make it before")
    endif()
    get_target_property(type ${user} TYPE)
    if(type STREQUAL "UTILITY")
      _tvm_stm32_error("${where}: LINK_TO '${user}' is a custom target" "it links nothing" "a program or a library")
    endif()
    _tvm_stm32_link(${user} ${target})
  endforeach()
endfunction()

#[=======================================================================[
tvm_stm32_add_arena(<target> NETWORKS <target>...)

Makes the library <target>: one arena, as large as the largest needs, for networks that do not run at once. They link
it; nothing else is to do.
#]=======================================================================]
function(tvm_stm32_add_arena target)
  set(where "tvm_stm32_add_arena(${target})")
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "NETWORKS")
  _tvm_stm32_check_call("${where}" "${target}" "${arg_UNPARSED_ARGUMENTS}" "${arg_KEYWORDS_MISSING_VALUES}" "NETWORKS")
  if(NOT target MATCHES "^[A-Za-z][A-Za-z0-9_]*$")
    _tvm_stm32_error("${where}: the target's name is no C name" "the arena is a variable of that name"
      "letters, digits and _, a letter first")
  endif()
  if(NOT arg_NETWORKS)
    _tvm_stm32_error("${where}: there are no NETWORKS" "" "NETWORKS with targets of tvm_stm32_add_model")
  endif()
  set(names)
  set(includes)
  foreach(network IN LISTS arg_NETWORKS)
    set(name)
    if(TARGET ${network})
      get_target_property(name ${network} TVM_STM32_NAME)
    endif()
    if(NOT name)
      _tvm_stm32_error("${where}: '${network}' is no network" "" "targets that tvm_stm32_add_model made before")
    endif()
    get_target_property(real ${network} ALIASED_TARGET)
    if(real)
      list(TRANSFORM arg_NETWORKS REPLACE "^${network}$" "${real}")
    endif()
    get_target_property(c_api ${network} TVM_STM32_C_API)
    if(c_api AND NOT c_api STREQUAL "ai")
      _tvm_stm32_error("${where}: '${network}' has the C_API ${c_api}" "its application brings the activations"
        "give both networks the same activations there")
    endif()
    get_target_property(group ${network} TVM_STM32_ARENA)
    if(group)
      _tvm_stm32_error("${where}: '${network}' is in the group '${group}' already" "" "name it in one of them")
    endif()
    get_target_property(folder ${network} TVM_STM32_FOLDER)
    list(APPEND names ${name})
    list(APPEND includes "${folder}")
  endforeach()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/tvm_stm32/${target}")
  set(source "${folder}/${target}.c")
  _tvm_stm32_command(tool "${where}")
  add_custom_command(
    OUTPUT "${source}"
    COMMAND ${tool} arena ${target} ${names} -o "${source}" --depfile "${source}.d" --one-rule
    DEPFILE "${source}.d"
    COMMENT "Generating arena ${target}"
    VERBATIM)
  _tvm_stm32_library(${target} "${folder}" "${source}" "${source}")
  _tvm_stm32_link(${target} ai_runtime)
  set_property(TARGET ${target} APPEND PROPERTY INCLUDE_DIRECTORIES ${includes})
  foreach(network IN LISTS arg_NETWORKS)
    add_dependencies(${target} ${network}_generate)
    set_target_properties(${network} PROPERTIES TVM_STM32_ARENA ${target})
    _tvm_stm32_link(${network} ${target})
  endforeach()
endfunction()

#[=======================================================================[
tvm_stm32_add_runtime([C_API <interface>...])

Makes the library ai_runtime that all networks of the project share, and with an interface of ST's ai_runtime_x_cube_ai
or ai_runtime_st_ai. tvm_stm32_add_model calls it; call it before to choose the folder the libraries belong to.
#]=======================================================================]
function(tvm_stm32_add_runtime)
  set(where "tvm_stm32_add_runtime()")
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "C_API")
  _tvm_stm32_check_call("${where}" runtime "${arg_UNPARSED_ARGUMENTS}" "" "C_API")
  set(core ai_runtime.c ai_nolibc.c ai_runtime.h ai_runtime.hpp ai_blocks.h ai_kernels.h ai_kernels_dsp.h
    ai_kernels_float.h ai_kernels_mve.h ai_tvm_shim.h)
  set(types ai_platform.h ai_datatypes_defines.h)
  set(files_of_x-cube-ai st_bridge.c ai_platform.c st_bridge.h st_client.h ${types} ai_platform_interface.h)
  set(files_of_st-ai st_bridge.c stai.c st_bridge.h st_stai.h stai.h stai_debug.h stai_events.h ${types})
  foreach(c_api IN LISTS arg_C_API)
    _tvm_stm32_check_word("${where}" C_API "${c_api}" ai x-cube-ai st-ai)
  endforeach()
  foreach(c_api IN ITEMS ai LISTS arg_C_API)
    set(target ai_runtime)
    if(NOT c_api STREQUAL "ai")
      string(REPLACE "-" "_" target "ai_runtime_${c_api}")
    endif()
    if(TARGET ${target})
      continue()
    endif()
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/tvm_stm32/${target}")
    set(files ${core} ${files_of_${c_api}})
    list(TRANSFORM files PREPEND "${folder}/")
    _tvm_stm32_command(tool "${where}")
    set(stamp "${folder}/${target}.stamp")
    add_custom_command(
      OUTPUT "${stamp}"
      BYPRODUCTS ${files}
      COMMAND ${tool} runtime -o "${folder}" --c-api ${c_api} --depfile "${stamp}.d" --stamp "${stamp}" --one-rule
      DEPFILE "${stamp}.d"
      COMMENT "Generating ${target}"
      VERBATIM)
    list(FILTER files EXCLUDE REGEX "/ai_nolibc\\.c$")
    if(NOT c_api STREQUAL "ai")
      list(FILTER files EXCLUDE REGEX "/ai_runtime\\.c$")
    endif()
    _tvm_stm32_library(${target} "${folder}" "${stamp}" ${files})
    if(NOT c_api STREQUAL "ai")
      _tvm_stm32_link(${target} ai_runtime)
    elseif(CMAKE_C_COMPILER_ID MATCHES "^(GNU|Clang|AppleClang)$" AND NOT MSVC AND NOT TARGET zephyr_interface)
      # Kernels on floats call fmaf, expf and the like.
      set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_LIBRARIES m)
    endif()
  endforeach()
endfunction()

# The static library of generated files, which what makes `stamp` makes as well.
function(_tvm_stm32_library target folder stamp)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "C" IN_LIST languages)
    _tvm_stm32_error("${target}: the project has no language C" "networks are C" "project(... LANGUAGES C), or enable_language(C)")
  endif()
  # Makefiles know that the stamp has to be made, and not what comes with it: the files wait for a target.
  add_custom_target(${target}_generate DEPENDS "${stamp}")
  if(CMAKE_GENERATOR MATCHES "Makefiles")
    _tvm_stm32_missing(${target} "${stamp}" ${ARGN})
  endif()
  add_library(${target} STATIC ${ARGN})
  add_dependencies(${target} ${target}_generate)
  target_include_directories(${target} PUBLIC "${folder}")
  set_target_properties(${target} PROPERTIES
    TVM_STM32_FOLDER "${folder}"
    # Names that are static in one file may be so in another; and what was generated is not linted.
    UNITY_BUILD OFF
    C_CLANG_TIDY ""
    C_CPPCHECK ""
    C_INCLUDE_WHAT_YOU_USE "")
  if(TVM_STM32_LINK_LIBRARIES)
    set_property(TARGET ${target} APPEND PROPERTY LINK_LIBRARIES ${TVM_STM32_LINK_LIBRARIES})
  endif()
endfunction()

# Lets Makefiles, which know nothing of what is made beside a stamp, make files again that somebody has deleted: without
# the stamp. (Named as further outputs they would be touched, and compiled, whenever the generator runs.)
function(_tvm_stm32_missing target stamp)
  set(script "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}_missing.cmake")
  list(JOIN ARGN "]===]\n    [===[" files)
  file(WRITE "${script}" "foreach(file IN ITEMS\n    [===[${files}]===])
  if(NOT EXISTS \"\${file}\")
    file(REMOVE [===[${stamp}]===])
  endif()
endforeach()
")
  add_custom_target(${target}_missing COMMAND "${CMAKE_COMMAND}" -P "${script}" VERBATIM)
  add_dependencies(${target}_generate ${target}_missing)
endfunction()

# As target_link_libraries(user PUBLIC library), but `user` is free to use either signature of that, in any folder.
function(_tvm_stm32_link user library)
  get_target_property(real ${user} ALIASED_TARGET)
  if(real)
    set(user ${real})
  endif()
  get_target_property(type ${user} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    set_property(TARGET ${user} APPEND PROPERTY LINK_LIBRARIES ${library})
  endif()
  if(NOT type STREQUAL "EXECUTABLE")
    set_property(TARGET ${user} APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${library})
  endif()
endfunction()

# The command line of the generator. No process is started to find it.
function(_tvm_stm32_command result where)
  if(TVM_STM32_COMMAND)
    set(${result} ${TVM_STM32_COMMAND} PARENT_SCOPE)
    return()
  elseif(NOT "$ENV{TVM_STM32_COMMAND}" STREQUAL "")
    set(${result} $ENV{TVM_STM32_COMMAND} PARENT_SCOPE)
    return()
  endif()
  set(here "${CMAKE_CURRENT_FUNCTION_LIST_DIR}")
  get_filename_component(root "${here}" DIRECTORY)
  set(script)
  set(variable TVM_STM32_PROGRAM)
  # Of an installed package: share/cmake/tvm_stm32, and lib/python3.x/site-packages/tvm_stm32/_data/cmake.
  set(names tvm-stm32)
  set(places "${here}/../../../bin" "${here}/../../../../../../bin"
    "${here}/../../../Scripts" "${here}/../../../../../Scripts")
  if(EXISTS "${root}/tvm_stm32/__main__.py")
    set(script "${root}/tvm_stm32/__main__.py")
    set(variable TVM_STM32_PYTHON)
    set(names python3 python)
    set(places "${root}/.venv/bin" "${root}/.venv/Scripts")
  endif()
  if(${variable} AND NOT EXISTS "${${variable}}")
    unset(${variable} CACHE)
  endif()
  # A program of this computer, also where a toolchain file looks for all else in its root.
  find_program(${variable} NAMES ${names} HINTS ${places} NO_CMAKE_FIND_ROOT_PATH
    DOC "What generates networks, unless TVM_STM32_COMMAND is set")
  mark_as_advanced(${variable})
  if(NOT ${variable})
    list(GET names 0 missing)
    _tvm_stm32_error("${where}: the program ${missing} was not found" "it turns models into C when the project is built"
      "pip install tvm-stm32 in an active environment, or -DTVM_STM32_COMMAND=/path/to/tvm-stm32")
  endif()
  # A process that has imported everything may run it.
  set(${result} "${${variable}}" ${script} --resident PARENT_SCOPE)
endfunction()

# An input file's full path: in the source folder, or made by another rule of the build.
function(_tvm_stm32_input result where keyword file)
  if(file MATCHES "[:;][^/\\]*$")
    _tvm_stm32_error("${where}: ${keyword} is '${file}'" "no rule of a build has : or ; in the name of a file"
      "another name")
  endif()
  get_filename_component(source "${file}" ABSOLUTE)
  get_filename_component(binary "${file}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  foreach(path IN ITEMS "${source}" "${binary}")
    get_source_file_property(generated "${path}" GENERATED)
    if(generated OR EXISTS "${path}")
      set(${result} "${path}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  _tvm_stm32_error("${where}: ${keyword}: there is no file '${file}'" "" "a path from ${CMAKE_CURRENT_SOURCE_DIR}")
endfunction()

function(_tvm_stm32_check_call where target unknown empty keywords)
  if(unknown)
    list(GET unknown 0 first)
    list(JOIN keywords ", " known)
    _tvm_stm32_error("${where}: '${first}' is no keyword, nor the value of one" "" "one of: ${known}")
  elseif(empty)
    list(GET empty 0 first)
    _tvm_stm32_error("${where}: ${first} has no value" "" "give it one, or leave it out")
  elseif(NOT target MATCHES "^[A-Za-z0-9_+-][A-Za-z0-9_.+-]*$")
    _tvm_stm32_error("${where}: '${target}' is no name of a target" "a folder of the build has it, too"
      "letters, digits, _, + and -")
  elseif(target MATCHES "^ai_runtime(_x_cube_ai|_st_ai)?$" AND NOT keywords STREQUAL "C_API")
    _tvm_stm32_error("${where}: '${target}' is the library of the runtime" "all networks link it" "another name")
  elseif(TARGET "${target}")
    _tvm_stm32_error("${where}: there is a target '${target}' already" "the function makes a library of that name"
      "another name, and target_link_libraries")
  endif()
endfunction()

# OPTIONS may not say what the build has to know: which files there will be, and what they depend on.
function(_tvm_stm32_check_options where options)
  foreach(option IN LISTS options)
    string(REGEX REPLACE "=.*" "" word "${option}")
    if(word MATCHES "^--(name|board|cpu|c-api|weights)$")
      string(REGEX REPLACE "^--" "" keyword "${word}")
      string(TOUPPER "${keyword}" keyword)
      string(REPLACE "-" "_" keyword "${keyword}")
      _tvm_stm32_error("${where}: OPTIONS has '${option}'" "names and dependencies of files follow from it"
        "the keyword ${keyword}")
    elseif(word MATCHES "^(-o.*|-h|--(output|depfile|stamp|one-rule|shared-arena|help|no-runtime))$")
      _tvm_stm32_error("${where}: OPTIONS has '${option}'" "the build says that itself" "leave it out")
    endif()
  endforeach()
endfunction()

function(_tvm_stm32_check_word where keyword value)
  if(NOT value STREQUAL "" AND NOT value IN_LIST ARGN)
    list(JOIN ARGN ", " known)
    _tvm_stm32_error("${where}: ${keyword} is '${value}'" "" "one of: ${known}")
  endif()
endfunction()

function(_tvm_stm32_error what why try)
  set(text "${what}")
  if(why)
    string(APPEND text "\n  because: ${why}")
  endif()
  message(FATAL_ERROR "${text}\n  try: ${try}")
endfunction()

cmake_policy(POP)
