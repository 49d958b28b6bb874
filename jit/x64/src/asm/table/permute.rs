//! The rows of permutations, insertion and extraction.

#[rustfmt::skip]
macro_rules! permute {
    ($next:ident $($rest:ident)*; $($rows:tt)*) => { $next! { $($rest)*; $($rows)*
Vpermd        Vex  "vpermd"        P66 M0F38 0x36 W0  L2   "=vr vv vm"    "v"  ""   Avx2
            | Evex "vpermd"        P66 M0F38 0x36 W0  L25  "=vr vv vm"    "v"  "BZ" F;
Vpermq        Evex "vpermq"        P66 M0F38 0x36 W1  L25  "=vr vv vm"    "v"  "BZ" F;
VpermqImm     Vex  "vpermq"        P66 M0F3A 0x00 W1  L2   "=vr vm ib"    "v"  ""   Avx2
            | Evex "vpermq"        P66 M0F3A 0x00 W1  L25  "=vr vm ib"    "v"  "BZ" F;
Vpermps       Vex  "vpermps"       P66 M0F38 0x16 W0  L2   "=vr vv vm"    "v"  ""   Avx2
            | Evex "vpermps"       P66 M0F38 0x16 W0  L25  "=vr vv vm"    "v"  "BZ" F;
Vpermpd       Evex "vpermpd"       P66 M0F38 0x16 W1  L25  "=vr vv vm"    "v"  "BZ" F;
VpermpdImm    Vex  "vpermpd"       P66 M0F3A 0x01 W1  L2   "=vr vm ib"    "v"  ""   Avx2
            | Evex "vpermpd"       P66 M0F3A 0x01 W1  L25  "=vr vm ib"    "v"  "BZ" F;
Vpermw        Evex "vpermw"        P66 M0F38 0x8d W1  L125 "=vr vv vm"    "v"  "Z"  Bw;
Vpermb        Evex "vpermb"        P66 M0F38 0x8d W0  L125 "=vr vv vm"    "v"  "Z"  Vbmi;
Vpermilps     Vex  "vpermilps"     P66 M0F38 0x0c W0  L12  "=vr vv vm"    "v"  ""   Avx
            | Evex "vpermilps"     P66 M0F38 0x0c W0  L125 "=vr vv vm"    "v"  "BZ" F;
VpermilpsImm  Vex  "vpermilps"     P66 M0F3A 0x04 W0  L12  "=vr vm ib"    "v"  ""   Avx
            | Evex "vpermilps"     P66 M0F3A 0x04 W0  L125 "=vr vm ib"    "v"  "BZ" F;
Vpermilpd     Vex  "vpermilpd"     P66 M0F38 0x0d W0  L12  "=vr vv vm"    "v"  ""   Avx
            | Evex "vpermilpd"     P66 M0F38 0x0d W1  L125 "=vr vv vm"    "v"  "BZ" F;
VpermilpdImm  Vex  "vpermilpd"     P66 M0F3A 0x05 W0  L12  "=vr vm ib"    "v"  ""   Avx
            | Evex "vpermilpd"     P66 M0F3A 0x05 W1  L125 "=vr vm ib"    "v"  "BZ" F;
Vperm2f128    Vex  "vperm2f128"    P66 M0F3A 0x06 W0  L2   "=vr vv vm ib" "v"  ""   Avx;
Vperm2i128    Vex  "vperm2i128"    P66 M0F3A 0x46 W0  L2   "=vr vv vm ib" "v"  ""   Avx2;
Vpermi2d      Evex "vpermi2d"      P66 M0F38 0x76 W0  L125 "+vr vv vm"    "v"  "BZ" F;
Vpermi2q      Evex "vpermi2q"      P66 M0F38 0x76 W1  L125 "+vr vv vm"    "v"  "BZ" F;
Vpermi2ps     Evex "vpermi2ps"     P66 M0F38 0x77 W0  L125 "+vr vv vm"    "v"  "BZ" F;
Vpermi2pd     Evex "vpermi2pd"     P66 M0F38 0x77 W1  L125 "+vr vv vm"    "v"  "BZ" F;
Vpermi2w      Evex "vpermi2w"      P66 M0F38 0x75 W1  L125 "+vr vv vm"    "v"  "Z"  Bw;
Vpermi2b      Evex "vpermi2b"      P66 M0F38 0x75 W0  L125 "+vr vv vm"    "v"  "Z"  Vbmi;
Vpermt2d      Evex "vpermt2d"      P66 M0F38 0x7e W0  L125 "+vr vv vm"    "v"  "BZ" F;
Vpermt2q      Evex "vpermt2q"      P66 M0F38 0x7e W1  L125 "+vr vv vm"    "v"  "BZ" F;
Vpermt2ps     Evex "vpermt2ps"     P66 M0F38 0x7f W0  L125 "+vr vv vm"    "v"  "BZ" F;
Vpermt2pd     Evex "vpermt2pd"     P66 M0F38 0x7f W1  L125 "+vr vv vm"    "v"  "BZ" F;
Vpermt2w      Evex "vpermt2w"      P66 M0F38 0x7d W1  L125 "+vr vv vm"    "v"  "Z"  Bw;
Vpermt2b      Evex "vpermt2b"      P66 M0F38 0x7d W0  L125 "+vr vv vm"    "v"  "Z"  Vbmi;
Vpshufd       Vex  "vpshufd"       P66 M0F   0x70 WIG L12  "=vr vm ib"    "v"  ""   AvxInt
            | Evex "vpshufd"       P66 M0F   0x70 W0  L125 "=vr vm ib"    "v"  "BZ" F;
Vpshufb       Vex  "vpshufb"       P66 M0F38 0x00 WIG L12  "=vr vv vm"    "v"  ""   AvxInt
            | Evex "vpshufb"       P66 M0F38 0x00 WIG L125 "=vr vv vm"    "v"  "Z"  Bw;
Vpshufhw      Vex  "vpshufhw"      PF3 M0F   0x70 WIG L12  "=vr vm ib"    "v"  ""   AvxInt
            | Evex "vpshufhw"      PF3 M0F   0x70 WIG L125 "=vr vm ib"    "v"  "Z"  Bw;
Vpshuflw      Vex  "vpshuflw"      PF2 M0F   0x70 WIG L12  "=vr vm ib"    "v"  ""   AvxInt
            | Evex "vpshuflw"      PF2 M0F   0x70 WIG L125 "=vr vm ib"    "v"  "Z"  Bw;
Vshufps       Vex  "vshufps"       NP  M0F   0xc6 WIG L12  "=vr vv vm ib" "v"  ""   Avx
            | Evex "vshufps"       NP  M0F   0xc6 W0  L125 "=vr vv vm ib" "v"  "BZ" F;
Vshufpd       Vex  "vshufpd"       P66 M0F   0xc6 WIG L12  "=vr vv vm ib" "v"  ""   Avx
            | Evex "vshufpd"       P66 M0F   0xc6 W1  L125 "=vr vv vm ib" "v"  "BZ" F;
Vshuff32x4    Evex "vshuff32x4"    P66 M0F3A 0x23 W0  L25  "=vr vv vm ib" "v"  "BZ" F;
Vshuff64x2    Evex "vshuff64x2"    P66 M0F3A 0x23 W1  L25  "=vr vv vm ib" "v"  "BZ" F;
Vshufi32x4    Evex "vshufi32x4"    P66 M0F3A 0x43 W0  L25  "=vr vv vm ib" "v"  "BZ" F;
Vshufi64x2    Evex "vshufi64x2"    P66 M0F3A 0x43 W1  L25  "=vr vv vm ib" "v"  "BZ" F;
Valignd       Evex "valignd"       P66 M0F3A 0x03 W0  L125 "=vr vv vm ib" "v"  "BZ" F;
Valignq       Evex "valignq"       P66 M0F3A 0x03 W1  L125 "=vr vv vm ib" "v"  "BZ" F;
Vpalignr      Vex  "vpalignr"      P66 M0F3A 0x0f WIG L12  "=vr vv vm ib" "v"  ""   AvxInt
            | Evex "vpalignr"      P66 M0F3A 0x0f WIG L125 "=vr vv vm ib" "v"  "Z"  Bw;
Vpunpcklbw    Vex  "vpunpcklbw"    P66 M0F   0x60 WIG L12  "=vr vv vm"    "v"  ""   AvxInt
            | Evex "vpunpcklbw"    P66 M0F   0x60 WIG L125 "=vr vv vm"    "v"  "Z"  Bw;
Vpunpcklwd    Vex  "vpunpcklwd"    P66 M0F   0x61 WIG L12  "=vr vv vm"    "v"  ""   AvxInt
            | Evex "vpunpcklwd"    P66 M0F   0x61 WIG L125 "=vr vv vm"    "v"  "Z"  Bw;
Vpunpckldq    Vex  "vpunpckldq"    P66 M0F   0x62 WIG L12  "=vr vv vm"    "v"  ""   AvxInt
            | Evex "vpunpckldq"    P66 M0F   0x62 W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vpunpcklqdq   Vex  "vpunpcklqdq"   P66 M0F   0x6c WIG L12  "=vr vv vm"    "v"  ""   AvxInt
            | Evex "vpunpcklqdq"   P66 M0F   0x6c W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vpunpckhbw    Vex  "vpunpckhbw"    P66 M0F   0x68 WIG L12  "=vr vv vm"    "v"  ""   AvxInt
            | Evex "vpunpckhbw"    P66 M0F   0x68 WIG L125 "=vr vv vm"    "v"  "Z"  Bw;
Vpunpckhwd    Vex  "vpunpckhwd"    P66 M0F   0x69 WIG L12  "=vr vv vm"    "v"  ""   AvxInt
            | Evex "vpunpckhwd"    P66 M0F   0x69 WIG L125 "=vr vv vm"    "v"  "Z"  Bw;
Vpunpckhdq    Vex  "vpunpckhdq"    P66 M0F   0x6a WIG L12  "=vr vv vm"    "v"  ""   AvxInt
            | Evex "vpunpckhdq"    P66 M0F   0x6a W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vpunpckhqdq   Vex  "vpunpckhqdq"   P66 M0F   0x6d WIG L12  "=vr vv vm"    "v"  ""   AvxInt
            | Evex "vpunpckhqdq"   P66 M0F   0x6d W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vunpcklps     Vex  "vunpcklps"     NP  M0F   0x14 WIG L12  "=vr vv vm"    "v"  ""   Avx
            | Evex "vunpcklps"     NP  M0F   0x14 W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vunpcklpd     Vex  "vunpcklpd"     P66 M0F   0x14 WIG L12  "=vr vv vm"    "v"  ""   Avx
            | Evex "vunpcklpd"     P66 M0F   0x14 W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vunpckhps     Vex  "vunpckhps"     NP  M0F   0x15 WIG L12  "=vr vv vm"    "v"  ""   Avx
            | Evex "vunpckhps"     NP  M0F   0x15 W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vunpckhpd     Vex  "vunpckhpd"     P66 M0F   0x15 WIG L12  "=vr vv vm"    "v"  ""   Avx
            | Evex "vunpckhpd"     P66 M0F   0x15 W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vinsertf32x4  Vex  "vinsertf128"   P66 M0F3A 0x18 W0  L2   "=vr vv xm ib" "16" ""   Avx
            | Evex "vinsertf32x4"  P66 M0F3A 0x18 W0  L25  "=vr vv xm ib" "16" "Z"  F;
Vinserti32x4  Vex  "vinserti128"   P66 M0F3A 0x38 W0  L2   "=vr vv xm ib" "16" ""   Avx2
            | Evex "vinserti32x4"  P66 M0F3A 0x38 W0  L25  "=vr vv xm ib" "16" "Z"  F;
Vinsertf64x2  Vex  "vinsertf128"   P66 M0F3A 0x18 W0  L2   "=vr vv xm ib" "16" ""   Avx
            | Evex "vinsertf64x2"  P66 M0F3A 0x18 W1  L25  "=vr vv xm ib" "16" "Z"  Dq;
Vinserti64x2  Vex  "vinserti128"   P66 M0F3A 0x38 W0  L2   "=vr vv xm ib" "16" ""   Avx2
            | Evex "vinserti64x2"  P66 M0F3A 0x38 W1  L25  "=vr vv xm ib" "16" "Z"  Dq;
Vinsertf32x8  Evex "vinsertf32x8"  P66 M0F3A 0x1a W0  L5   "=vr vv hm ib" "h"  "Z"  Dq;
Vinserti32x8  Evex "vinserti32x8"  P66 M0F3A 0x3a W0  L5   "=vr vv hm ib" "h"  "Z"  Dq;
Vinsertf64x4  Evex "vinsertf64x4"  P66 M0F3A 0x1a W1  L5   "=vr vv hm ib" "h"  "Z"  F;
Vinserti64x4  Evex "vinserti64x4"  P66 M0F3A 0x3a W1  L5   "=vr vv hm ib" "h"  "Z"  F;
Vextractf32x4 Vex  "vextractf128"  P66 M0F3A 0x19 W0  L2   "=xm vr ib"    "16" ""   Avx
            | Evex "vextractf32x4" P66 M0F3A 0x19 W0  L25  "=xm vr ib"    "16" "Z"  F;
Vextracti32x4 Vex  "vextracti128"  P66 M0F3A 0x39 W0  L2   "=xm vr ib"    "16" ""   Avx2
            | Evex "vextracti32x4" P66 M0F3A 0x39 W0  L25  "=xm vr ib"    "16" "Z"  F;
Vextractf64x2 Vex  "vextractf128"  P66 M0F3A 0x19 W0  L2   "=xm vr ib"    "16" ""   Avx
            | Evex "vextractf64x2" P66 M0F3A 0x19 W1  L25  "=xm vr ib"    "16" "Z"  Dq;
Vextracti64x2 Vex  "vextracti128"  P66 M0F3A 0x39 W0  L2   "=xm vr ib"    "16" ""   Avx2
            | Evex "vextracti64x2" P66 M0F3A 0x39 W1  L25  "=xm vr ib"    "16" "Z"  Dq;
Vextractf32x8 Evex "vextractf32x8" P66 M0F3A 0x1b W0  L5   "=hm vr ib"    "h"  "Z"  Dq;
Vextracti32x8 Evex "vextracti32x8" P66 M0F3A 0x3b W0  L5   "=hm vr ib"    "h"  "Z"  Dq;
Vextractf64x4 Evex "vextractf64x4" P66 M0F3A 0x1b W1  L5   "=hm vr ib"    "h"  "Z"  F;
Vextracti64x4 Evex "vextracti64x4" P66 M0F3A 0x3b W1  L5   "=hm vr ib"    "h"  "Z"  F;
Vinsertps     Vex  "vinsertps"     P66 M0F3A 0x21 WIG L1   "=vr vv vm ib" "4"  ""   Avx
            | Evex "vinsertps"     P66 M0F3A 0x21 W0  S    "=vr vv vm ib" "4"  ""   F;
Vextractps    Vex  "vextractps"    P66 M0F3A 0x17 W0  L1   "=dm vr ib"    "4"  ""   Avx
            | Evex "vextractps"    P66 M0F3A 0x17 W0  S    "=dm vr ib"    "4"  ""   F;
Vpinsrb       Vex  "vpinsrb"       P66 M0F3A 0x20 W0  L1   "=vr vv dm ib" "1"  ""   Avx
            | Evex "vpinsrb"       P66 M0F3A 0x20 W0  S    "=vr vv dm ib" "1"  ""   Bw;
Vpinsrw       Vex  "vpinsrw"       P66 M0F   0xc4 W0  L1   "=vr vv dm ib" "2"  ""   Avx
            | Evex "vpinsrw"       P66 M0F   0xc4 W0  S    "=vr vv dm ib" "2"  ""   Bw;
Vpinsrd       Vex  "vpinsrd"       P66 M0F3A 0x22 W0  L1   "=vr vv dm ib" "4"  ""   Avx
            | Evex "vpinsrd"       P66 M0F3A 0x22 W0  S    "=vr vv dm ib" "4"  ""   Dq;
Vpinsrq       Vex  "vpinsrq"       P66 M0F3A 0x22 W1  L1   "=vr vv lm ib" "8"  ""   Avx
            | Evex "vpinsrq"       P66 M0F3A 0x22 W1  S    "=vr vv lm ib" "8"  ""   Dq;
Vpextrb       Vex  "vpextrb"       P66 M0F3A 0x14 W0  L1   "=dm vr ib"    "1"  ""   Avx
            | Evex "vpextrb"       P66 M0F3A 0x14 W0  S    "=dm vr ib"    "1"  ""   Bw;
Vpextrw       Vex  "vpextrw"       P66 M0F3A 0x15 W0  L1   "=dm vr ib"    "2"  ""   Avx
            | Evex "vpextrw"       P66 M0F3A 0x15 W0  S    "=dm vr ib"    "2"  ""   Bw;
Vpextrd       Vex  "vpextrd"       P66 M0F3A 0x16 W0  L1   "=dm vr ib"    "4"  ""   Avx
            | Evex "vpextrd"       P66 M0F3A 0x16 W0  S    "=dm vr ib"    "4"  ""   Dq;
Vpextrq       Vex  "vpextrq"       P66 M0F3A 0x16 W1  L1   "=lm vr ib"    "8"  ""   Avx
            | Evex "vpextrq"       P66 M0F3A 0x16 W1  S    "=lm vr ib"    "8"  ""   Dq;
    }};
}
