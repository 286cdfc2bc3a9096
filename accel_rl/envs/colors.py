"""The luminance of each palette index, which equals that of `ALEInterface.getScreenGrayscale`.

The luminances were measured on ale-py 0.12.1, with a program that displays every colour through the COLUBK register in
frames of 262 (NTSC), 312 and 313 (PAL) lines. An NTSC screen contains only even indices, whose luminance is round(.2989
R + .587 G + .114 B). A PAL screen with an odd number of lines has no colour, and ale-py then uses odd palette indices,
to which the formula does not apply. Games with screens of 250 rows are PAL, and all other games are NTSC.
"""

import numpy as np

PAL_ROWS = 250

# fmt: off
NTSC_EVEN = (
    0, 74, 111, 142, 170, 192, 214, 236, 64, 95, 122, 148, 172, 193, 214, 233,
    63, 87, 110, 131, 150, 167, 184, 199, 59, 85, 107, 129, 148, 167, 183, 199,
    44, 68, 90, 110, 128, 146, 161, 176, 51, 74, 95, 115, 132, 149, 164, 178,
    39, 63, 85, 107, 125, 143, 159, 174, 22, 49, 73, 96, 116, 136, 153, 169,
    17, 41, 64, 85, 104, 121, 137, 153, 32, 60, 85, 109, 130, 150, 168, 186,
    40, 69, 95, 120, 141, 162, 182, 200, 43, 74, 101, 127, 151, 173, 193, 212,
    40, 71, 98, 124, 147, 169, 189, 207, 41, 74, 104, 132, 157, 181, 203, 223,
    47, 79, 107, 133, 157, 179, 200, 220, 47, 79, 107, 133, 157, 179, 200, 220,
)
# The luminance of the PAL palette indices 0, 2, 4 .. 254 (PAL_EVEN) and 1, 3, 5 .. 255 (PAL_ODD)
PAL_EVEN = (
    0, 43, 82, 118, 151, 182, 210, 236, 0, 43, 82, 118, 151, 182, 210, 236,
    90, 114, 136, 157, 175, 192, 208, 223, 74, 102, 127, 151, 172, 192, 211, 228,
    64, 91, 116, 140, 161, 181, 199, 216, 61, 89, 114, 137, 159, 179, 197, 214,
    36, 62, 87, 109, 129, 149, 166, 183, 64, 90, 114, 136, 156, 175, 192, 208,
    44, 68, 90, 110, 129, 146, 162, 177, 48, 76, 101, 124, 146, 165, 184, 201,
    39, 64, 87, 108, 127, 145, 161, 177, 32, 60, 85, 109, 131, 151, 169, 187,
    30, 54, 77, 98, 117, 135, 151, 166, 16, 41, 64, 86, 105, 124, 141, 156,
    0, 43, 82, 118, 151, 182, 210, 236, 0, 43, 82, 118, 151, 182, 210, 236,
)
PAL_ODD = (
    43, 82, 118, 151, 182, 210, 236, 0, 43, 82, 118, 151, 182, 210, 236, 0,
    26, 50, 72, 92, 111, 128, 144, 0, 26, 50, 72, 92, 111, 128, 144, 0,
    26, 50, 72, 92, 111, 128, 144, 20, 53, 82, 110, 135, 158, 180, 200, 20,
    53, 82, 110, 135, 158, 180, 200, 92, 118, 142, 164, 184, 203, 220, 236, 92,
    116, 137, 158, 176, 193, 209, 224, 112, 137, 160, 182, 201, 220, 236, 252, 112,
    137, 160, 182, 201, 220, 236, 252, 112, 137, 160, 182, 201, 220, 236, 252, 128,
    150, 171, 190, 207, 223, 238, 252, 136, 157, 176, 194, 210, 225, 239, 252, 0,
    43, 82, 118, 151, 182, 210, 236, 0, 43, 82, 118, 151, 182, 210, 236, 0,
)
# fmt: on


def luminance(rows: int) -> np.ndarray:
    """Return the luminance [256] uint8 of each palette index. The number of rows of the screen determines the TV format
    (NTSC or PAL)."""
    table = np.zeros(256, np.uint8)
    if rows == PAL_ROWS:
        table[0::2], table[1::2] = PAL_EVEN, PAL_ODD
    else:
        table[0::2] = NTSC_EVEN
    return table
