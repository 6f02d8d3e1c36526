// ${generated_comment}
#pragma once

${static_dispatch_extra_headers}

#define TORCH_API

${Functions_declarations}
