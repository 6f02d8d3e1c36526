// ${generated_comment}
#pragma once

${headers}

${nativeFunctions_declarations}
