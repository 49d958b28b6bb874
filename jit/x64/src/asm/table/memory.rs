//! The rows of gathers, scatters, AVX2 accesses with masks, and the state of the vector unit.

#[rustfmt::skip]
macro_rules! memory {
    ($next:ident $($rest:ident)*; $($rows:tt)*) => { $next! { $($rest)*; $($rows)*
Vgatherdps       Evex "vgatherdps"  P66 M0F38 0x92 W0  L125 "+vr vS"     "4" "Q" F;
VgatherdpsVector Vex  "vgatherdps"  P66 M0F38 0x92 W0  L12  "+vr vS +vv" "4" ""  Avx2;
Vgatherdpd       Evex "vgatherdpd"  P66 M0F38 0x92 W1  L125 "+vr hS"     "8" "Q" F;
VgatherdpdVector Vex  "vgatherdpd"  P66 M0F38 0x92 W1  L12  "+vr hS +vv" "8" ""  Avx2;
Vgatherqps       Evex "vgatherqps"  P66 M0F38 0x93 W0  L125 "+hr vS"     "4" "Q" F;
VgatherqpsVector Vex  "vgatherqps"  P66 M0F38 0x93 W0  L12  "+hr vS +hv" "4" ""  Avx2;
Vgatherqpd       Evex "vgatherqpd"  P66 M0F38 0x93 W1  L125 "+vr vS"     "8" "Q" F;
VgatherqpdVector Vex  "vgatherqpd"  P66 M0F38 0x93 W1  L12  "+vr vS +vv" "8" ""  Avx2;
Vpgatherdd       Evex "vpgatherdd"  P66 M0F38 0x90 W0  L125 "+vr vS"     "4" "Q" F;
VpgatherddVector Vex  "vpgatherdd"  P66 M0F38 0x90 W0  L12  "+vr vS +vv" "4" ""  Avx2;
Vpgatherdq       Evex "vpgatherdq"  P66 M0F38 0x90 W1  L125 "+vr hS"     "8" "Q" F;
VpgatherdqVector Vex  "vpgatherdq"  P66 M0F38 0x90 W1  L12  "+vr hS +vv" "8" ""  Avx2;
Vpgatherqd       Evex "vpgatherqd"  P66 M0F38 0x91 W0  L125 "+hr vS"     "4" "Q" F;
VpgatherqdVector Vex  "vpgatherqd"  P66 M0F38 0x91 W0  L12  "+hr vS +hv" "4" ""  Avx2;
Vpgatherqq       Evex "vpgatherqq"  P66 M0F38 0x91 W1  L125 "+vr vS"     "8" "Q" F;
VpgatherqqVector Vex  "vpgatherqq"  P66 M0F38 0x91 W1  L12  "+vr vS +vv" "8" ""  Avx2;
Vscatterdps      Evex "vscatterdps" P66 M0F38 0xa2 W0  L125 "=vS vr"     "4" "Q" F;
Vscatterdpd      Evex "vscatterdpd" P66 M0F38 0xa2 W1  L125 "=hS vr"     "8" "Q" F;
Vscatterqps      Evex "vscatterqps" P66 M0F38 0xa3 W0  L125 "=vS hr"     "4" "Q" F;
Vscatterqpd      Evex "vscatterqpd" P66 M0F38 0xa3 W1  L125 "=vS vr"     "8" "Q" F;
Vpscatterdd      Evex "vpscatterdd" P66 M0F38 0xa0 W0  L125 "=vS vr"     "4" "Q" F;
Vpscatterdq      Evex "vpscatterdq" P66 M0F38 0xa0 W1  L125 "=hS vr"     "8" "Q" F;
Vpscatterqd      Evex "vpscatterqd" P66 M0F38 0xa1 W0  L125 "=vS hr"     "4" "Q" F;
Vpscatterqq      Evex "vpscatterqq" P66 M0F38 0xa1 W1  L125 "=vS vr"     "8" "Q" F;
Vmaskmovps       Vex  "vmaskmovps"  P66 M0F38 0x2c W0  L12  "=vr vv M"   "v" ""  Avx;
VmaskmovpsStore  Vex  "vmaskmovps"  P66 M0F38 0x2e W0  L12  "=M vv vr"   "v" ""  Avx;
Vmaskmovpd       Vex  "vmaskmovpd"  P66 M0F38 0x2d W0  L12  "=vr vv M"   "v" ""  Avx;
VmaskmovpdStore  Vex  "vmaskmovpd"  P66 M0F38 0x2f W0  L12  "=M vv vr"   "v" ""  Avx;
Vpmaskmovd       Vex  "vpmaskmovd"  P66 M0F38 0x8c W0  L12  "=vr vv M"   "v" ""  Avx2;
VpmaskmovdStore  Vex  "vpmaskmovd"  P66 M0F38 0x8e W0  L12  "=M vv vr"   "v" ""  Avx2;
Vpmaskmovq       Vex  "vpmaskmovq"  P66 M0F38 0x8c W1  L12  "=vr vv M"   "v" ""  Avx2;
VpmaskmovqStore  Vex  "vpmaskmovq"  P66 M0F38 0x8e W1  L12  "=M vv vr"   "v" ""  Avx2;
Vzeroupper       Vex  "vzeroupper"  NP  M0F   0x77 WIG L1   ""           ""  ""  Avx;
Vzeroall         Vex  "vzeroall"    NP  M0F   0x77 WIG L2   ""           ""  ""  Avx;
Vldmxcsr         Vex  "vldmxcsr"    NP  M0F   0xae WIG L1   "M /2"       "4" ""  Avx;
Vstmxcsr         Vex  "vstmxcsr"    NP  M0F   0xae WIG L1   "=M /3"      "4" ""  Avx;
    }};
}
