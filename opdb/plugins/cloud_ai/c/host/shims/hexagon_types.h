/* Hexagon's header is not here: a kernel that includes them and uses none compiles. */
#pragma once
