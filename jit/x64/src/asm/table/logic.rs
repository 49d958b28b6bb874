//! The rows of bitwise operations, shifts and rotations of vectors.

#[rustfmt::skip]
macro_rules! logic {
    ($next:ident $($rest:ident)*; $($rows:tt)*) => { $next! { $($rest)*; $($rows)*
Vpandd     Vex  "vpand"      P66 M0F   0xdb WIG L12  "=vr vv vm"    "v"  ""   AvxInt
         | Evex "vpandd"     P66 M0F   0xdb W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vpandq     Vex  "vpand"      P66 M0F   0xdb WIG L12  "=vr vv vm"    "v"  ""   AvxInt
         | Evex "vpandq"     P66 M0F   0xdb W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vpandnd    Vex  "vpandn"     P66 M0F   0xdf WIG L12  "=vr vv vm"    "v"  ""   AvxInt
         | Evex "vpandnd"    P66 M0F   0xdf W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vpandnq    Vex  "vpandn"     P66 M0F   0xdf WIG L12  "=vr vv vm"    "v"  ""   AvxInt
         | Evex "vpandnq"    P66 M0F   0xdf W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vpord      Vex  "vpor"       P66 M0F   0xeb WIG L12  "=vr vv vm"    "v"  ""   AvxInt
         | Evex "vpord"      P66 M0F   0xeb W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vporq      Vex  "vpor"       P66 M0F   0xeb WIG L12  "=vr vv vm"    "v"  ""   AvxInt
         | Evex "vporq"      P66 M0F   0xeb W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vpxord     Vex  "vpxor"      P66 M0F   0xef WIG L12  "=vr vv vm"    "v"  ""   AvxInt
         | Evex "vpxord"     P66 M0F   0xef W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vpxorq     Vex  "vpxor"      P66 M0F   0xef WIG L12  "=vr vv vm"    "v"  ""   AvxInt
         | Evex "vpxorq"     P66 M0F   0xef W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vpternlogd Evex "vpternlogd" P66 M0F3A 0x25 W0  L125 "+vr vv vm ib" "v"  "BZ" F;
Vpternlogq Evex "vpternlogq" P66 M0F3A 0x25 W1  L125 "+vr vv vm ib" "v"  "BZ" F;
Vandps     Vex  "vandps"     NP  M0F   0x54 WIG L12  "=vr vv vm"    "v"  ""   Avx
         | Evex "vandps"     NP  M0F   0x54 W0  L125 "=vr vv vm"    "v"  "BZ" Dq;
Vandpd     Vex  "vandpd"     P66 M0F   0x54 WIG L12  "=vr vv vm"    "v"  ""   Avx
         | Evex "vandpd"     P66 M0F   0x54 W1  L125 "=vr vv vm"    "v"  "BZ" Dq;
Vandnps    Vex  "vandnps"    NP  M0F   0x55 WIG L12  "=vr vv vm"    "v"  ""   Avx
         | Evex "vandnps"    NP  M0F   0x55 W0  L125 "=vr vv vm"    "v"  "BZ" Dq;
Vandnpd    Vex  "vandnpd"    P66 M0F   0x55 WIG L12  "=vr vv vm"    "v"  ""   Avx
         | Evex "vandnpd"    P66 M0F   0x55 W1  L125 "=vr vv vm"    "v"  "BZ" Dq;
Vorps      Vex  "vorps"      NP  M0F   0x56 WIG L12  "=vr vv vm"    "v"  ""   Avx
         | Evex "vorps"      NP  M0F   0x56 W0  L125 "=vr vv vm"    "v"  "BZ" Dq;
Vorpd      Vex  "vorpd"      P66 M0F   0x56 WIG L12  "=vr vv vm"    "v"  ""   Avx
         | Evex "vorpd"      P66 M0F   0x56 W1  L125 "=vr vv vm"    "v"  "BZ" Dq;
Vxorps     Vex  "vxorps"     NP  M0F   0x57 WIG L12  "=vr vv vm"    "v"  ""   Avx
         | Evex "vxorps"     NP  M0F   0x57 W0  L125 "=vr vv vm"    "v"  "BZ" Dq;
Vxorpd     Vex  "vxorpd"     P66 M0F   0x57 WIG L12  "=vr vv vm"    "v"  ""   Avx
         | Evex "vxorpd"     P66 M0F   0x57 W1  L125 "=vr vv vm"    "v"  "BZ" Dq;
Vptest     Vex  "vptest"     P66 M0F38 0x17 WIG L12  "vr vm"        "v"  ""   Avx;
Vtestps    Vex  "vtestps"    P66 M0F38 0x0e W0  L12  "vr vm"        "v"  ""   Avx;
Vtestpd    Vex  "vtestpd"    P66 M0F38 0x0f W0  L12  "vr vm"        "v"  ""   Avx;
Vpsllw     Vex  "vpsllw"     P66 M0F   0xf1 WIG L12  "=vr vv xm"    "16" ""   AvxInt
         | Evex "vpsllw"     P66 M0F   0xf1 WIG L125 "=vr vv xm"    "16" "Z"  Bw;
VpsllwImm  Vex  "vpsllw"     P66 M0F   0x71 WIG L12  "=vv vR ib /6" ""   ""   AvxInt
         | Evex "vpsllw"     P66 M0F   0x71 WIG L125 "=vv vm ib /6" "v"  "Z"  Bw;
Vpslld     Vex  "vpslld"     P66 M0F   0xf2 WIG L12  "=vr vv xm"    "16" ""   AvxInt
         | Evex "vpslld"     P66 M0F   0xf2 W0  L125 "=vr vv xm"    "16" "Z"  F;
VpslldImm  Vex  "vpslld"     P66 M0F   0x72 WIG L12  "=vv vR ib /6" ""   ""   AvxInt
         | Evex "vpslld"     P66 M0F   0x72 W0  L125 "=vv vm ib /6" "v"  "BZ" F;
Vpsllq     Vex  "vpsllq"     P66 M0F   0xf3 WIG L12  "=vr vv xm"    "16" ""   AvxInt
         | Evex "vpsllq"     P66 M0F   0xf3 W1  L125 "=vr vv xm"    "16" "Z"  F;
VpsllqImm  Vex  "vpsllq"     P66 M0F   0x73 WIG L12  "=vv vR ib /6" ""   ""   AvxInt
         | Evex "vpsllq"     P66 M0F   0x73 W1  L125 "=vv vm ib /6" "v"  "BZ" F;
Vpsrlw     Vex  "vpsrlw"     P66 M0F   0xd1 WIG L12  "=vr vv xm"    "16" ""   AvxInt
         | Evex "vpsrlw"     P66 M0F   0xd1 WIG L125 "=vr vv xm"    "16" "Z"  Bw;
VpsrlwImm  Vex  "vpsrlw"     P66 M0F   0x71 WIG L12  "=vv vR ib /2" ""   ""   AvxInt
         | Evex "vpsrlw"     P66 M0F   0x71 WIG L125 "=vv vm ib /2" "v"  "Z"  Bw;
Vpsrld     Vex  "vpsrld"     P66 M0F   0xd2 WIG L12  "=vr vv xm"    "16" ""   AvxInt
         | Evex "vpsrld"     P66 M0F   0xd2 W0  L125 "=vr vv xm"    "16" "Z"  F;
VpsrldImm  Vex  "vpsrld"     P66 M0F   0x72 WIG L12  "=vv vR ib /2" ""   ""   AvxInt
         | Evex "vpsrld"     P66 M0F   0x72 W0  L125 "=vv vm ib /2" "v"  "BZ" F;
Vpsrlq     Vex  "vpsrlq"     P66 M0F   0xd3 WIG L12  "=vr vv xm"    "16" ""   AvxInt
         | Evex "vpsrlq"     P66 M0F   0xd3 W1  L125 "=vr vv xm"    "16" "Z"  F;
VpsrlqImm  Vex  "vpsrlq"     P66 M0F   0x73 WIG L12  "=vv vR ib /2" ""   ""   AvxInt
         | Evex "vpsrlq"     P66 M0F   0x73 W1  L125 "=vv vm ib /2" "v"  "BZ" F;
Vpsraw     Vex  "vpsraw"     P66 M0F   0xe1 WIG L12  "=vr vv xm"    "16" ""   AvxInt
         | Evex "vpsraw"     P66 M0F   0xe1 WIG L125 "=vr vv xm"    "16" "Z"  Bw;
VpsrawImm  Vex  "vpsraw"     P66 M0F   0x71 WIG L12  "=vv vR ib /4" ""   ""   AvxInt
         | Evex "vpsraw"     P66 M0F   0x71 WIG L125 "=vv vm ib /4" "v"  "Z"  Bw;
Vpsrad     Vex  "vpsrad"     P66 M0F   0xe2 WIG L12  "=vr vv xm"    "16" ""   AvxInt
         | Evex "vpsrad"     P66 M0F   0xe2 W0  L125 "=vr vv xm"    "16" "Z"  F;
VpsradImm  Vex  "vpsrad"     P66 M0F   0x72 WIG L12  "=vv vR ib /4" ""   ""   AvxInt
         | Evex "vpsrad"     P66 M0F   0x72 W0  L125 "=vv vm ib /4" "v"  "BZ" F;
Vpsraq     Evex "vpsraq"     P66 M0F   0xe2 W1  L125 "=vr vv xm"    "16" "Z"  F;
VpsraqImm  Evex "vpsraq"     P66 M0F   0x72 W1  L125 "=vv vm ib /4" "v"  "BZ" F;
Vpsllvw    Evex "vpsllvw"    P66 M0F38 0x12 W1  L125 "=vr vv vm"    "v"  "Z"  Bw;
Vpsllvd    Vex  "vpsllvd"    P66 M0F38 0x47 W0  L12  "=vr vv vm"    "v"  ""   Avx2
         | Evex "vpsllvd"    P66 M0F38 0x47 W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vpsllvq    Vex  "vpsllvq"    P66 M0F38 0x47 W1  L12  "=vr vv vm"    "v"  ""   Avx2
         | Evex "vpsllvq"    P66 M0F38 0x47 W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vpsrlvw    Evex "vpsrlvw"    P66 M0F38 0x10 W1  L125 "=vr vv vm"    "v"  "Z"  Bw;
Vpsrlvd    Vex  "vpsrlvd"    P66 M0F38 0x45 W0  L12  "=vr vv vm"    "v"  ""   Avx2
         | Evex "vpsrlvd"    P66 M0F38 0x45 W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vpsrlvq    Vex  "vpsrlvq"    P66 M0F38 0x45 W1  L12  "=vr vv vm"    "v"  ""   Avx2
         | Evex "vpsrlvq"    P66 M0F38 0x45 W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vpsravw    Evex "vpsravw"    P66 M0F38 0x11 W1  L125 "=vr vv vm"    "v"  "Z"  Bw;
Vpsravd    Vex  "vpsravd"    P66 M0F38 0x46 W0  L12  "=vr vv vm"    "v"  ""   Avx2
         | Evex "vpsravd"    P66 M0F38 0x46 W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vpsravq    Evex "vpsravq"    P66 M0F38 0x46 W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vpslldq    Vex  "vpslldq"    P66 M0F   0x73 WIG L12  "=vv vR ib /7" ""   ""   AvxInt
         | Evex "vpslldq"    P66 M0F   0x73 WIG L125 "=vv vm ib /7" "v"  ""   Bw;
Vpsrldq    Vex  "vpsrldq"    P66 M0F   0x73 WIG L12  "=vv vR ib /3" ""   ""   AvxInt
         | Evex "vpsrldq"    P66 M0F   0x73 WIG L125 "=vv vm ib /3" "v"  ""   Bw;
Vprold     Evex "vprold"     P66 M0F   0x72 W0  L125 "=vv vm ib /1" "v"  "BZ" F;
Vprolq     Evex "vprolq"     P66 M0F   0x72 W1  L125 "=vv vm ib /1" "v"  "BZ" F;
Vprolvd    Evex "vprolvd"    P66 M0F38 0x15 W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vprolvq    Evex "vprolvq"    P66 M0F38 0x15 W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vprord     Evex "vprord"     P66 M0F   0x72 W0  L125 "=vv vm ib /0" "v"  "BZ" F;
Vprorq     Evex "vprorq"     P66 M0F   0x72 W1  L125 "=vv vm ib /0" "v"  "BZ" F;
Vprorvd    Evex "vprorvd"    P66 M0F38 0x14 W0  L125 "=vr vv vm"    "v"  "BZ" F;
Vprorvq    Evex "vprorvq"    P66 M0F38 0x14 W1  L125 "=vr vv vm"    "v"  "BZ" F;
Vpshldw    Evex "vpshldw"    P66 M0F3A 0x70 W1  L125 "=vr vv vm ib" "v"  "Z"  Vbmi2;
Vpshldd    Evex "vpshldd"    P66 M0F3A 0x71 W0  L125 "=vr vv vm ib" "v"  "BZ" Vbmi2;
Vpshldq    Evex "vpshldq"    P66 M0F3A 0x71 W1  L125 "=vr vv vm ib" "v"  "BZ" Vbmi2;
Vpshldvw   Evex "vpshldvw"   P66 M0F38 0x70 W1  L125 "+vr vv vm"    "v"  "Z"  Vbmi2;
Vpshldvd   Evex "vpshldvd"   P66 M0F38 0x71 W0  L125 "+vr vv vm"    "v"  "BZ" Vbmi2;
Vpshldvq   Evex "vpshldvq"   P66 M0F38 0x71 W1  L125 "+vr vv vm"    "v"  "BZ" Vbmi2;
Vpshrdw    Evex "vpshrdw"    P66 M0F3A 0x72 W1  L125 "=vr vv vm ib" "v"  "Z"  Vbmi2;
Vpshrdd    Evex "vpshrdd"    P66 M0F3A 0x73 W0  L125 "=vr vv vm ib" "v"  "BZ" Vbmi2;
Vpshrdq    Evex "vpshrdq"    P66 M0F3A 0x73 W1  L125 "=vr vv vm ib" "v"  "BZ" Vbmi2;
Vpshrdvw   Evex "vpshrdvw"   P66 M0F38 0x72 W1  L125 "+vr vv vm"    "v"  "Z"  Vbmi2;
Vpshrdvd   Evex "vpshrdvd"   P66 M0F38 0x73 W0  L125 "+vr vv vm"    "v"  "BZ" Vbmi2;
Vpshrdvq   Evex "vpshrdvq"   P66 M0F38 0x73 W1  L125 "+vr vv vm"    "v"  "BZ" Vbmi2;
    }};
}
