/* Hexagon's intrinsics are not here: a kernel that includes them and uses none compiles. */
#pragma once
