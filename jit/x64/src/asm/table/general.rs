//! The rows of general-purpose registers.

#[rustfmt::skip]
macro_rules! general {
    ($next:ident $($rest:ident)*; $($rows:tt)*) => { $next! { $($rest)*; $($rows)*
Add         Legacy "add"         NP  One   0x01 WW G   "+gm gr"              "g"  "L" Base
          | Legacy "add"         NP  One   0x00 W0 W8  "+gm gr"              "g"  "L" Base
          | Legacy "add"         NP  One   0x03 WW G   "+gr gm"              "g"  ""  Base
          | Legacy "add"         NP  One   0x02 W0 W8  "+gr gm"              "g"  ""  Base
          | Legacy "add"         NP  One   0x83 WW G   "+gm is /0"           "g"  "L" Base
          | Legacy "add"         NP  One   0x05 WW G   "+ga iz"              ""   ""  Base
          | Legacy "add"         NP  One   0x81 WW G   "+gm iz /0"           "g"  "L" Base
          | Legacy "add"         NP  One   0x04 W0 W8  "+ga ib"              ""   ""  Base
          | Legacy "add"         NP  One   0x80 W0 W8  "+gm ib /0"           "g"  "L" Base;
Or          Legacy "or"          NP  One   0x09 WW G   "+gm gr"              "g"  "L" Base
          | Legacy "or"          NP  One   0x08 W0 W8  "+gm gr"              "g"  "L" Base
          | Legacy "or"          NP  One   0x0b WW G   "+gr gm"              "g"  ""  Base
          | Legacy "or"          NP  One   0x0a W0 W8  "+gr gm"              "g"  ""  Base
          | Legacy "or"          NP  One   0x83 WW G   "+gm is /1"           "g"  "L" Base
          | Legacy "or"          NP  One   0x0d WW G   "+ga iz"              ""   ""  Base
          | Legacy "or"          NP  One   0x81 WW G   "+gm iz /1"           "g"  "L" Base
          | Legacy "or"          NP  One   0x0c W0 W8  "+ga ib"              ""   ""  Base
          | Legacy "or"          NP  One   0x80 W0 W8  "+gm ib /1"           "g"  "L" Base;
Adc         Legacy "adc"         NP  One   0x11 WW G   "+gm gr"              "g"  "L" Base
          | Legacy "adc"         NP  One   0x10 W0 W8  "+gm gr"              "g"  "L" Base
          | Legacy "adc"         NP  One   0x13 WW G   "+gr gm"              "g"  ""  Base
          | Legacy "adc"         NP  One   0x12 W0 W8  "+gr gm"              "g"  ""  Base
          | Legacy "adc"         NP  One   0x83 WW G   "+gm is /2"           "g"  "L" Base
          | Legacy "adc"         NP  One   0x15 WW G   "+ga iz"              ""   ""  Base
          | Legacy "adc"         NP  One   0x81 WW G   "+gm iz /2"           "g"  "L" Base
          | Legacy "adc"         NP  One   0x14 W0 W8  "+ga ib"              ""   ""  Base
          | Legacy "adc"         NP  One   0x80 W0 W8  "+gm ib /2"           "g"  "L" Base;
Sbb         Legacy "sbb"         NP  One   0x19 WW G   "+gm gr"              "g"  "L" Base
          | Legacy "sbb"         NP  One   0x18 W0 W8  "+gm gr"              "g"  "L" Base
          | Legacy "sbb"         NP  One   0x1b WW G   "+gr gm"              "g"  ""  Base
          | Legacy "sbb"         NP  One   0x1a W0 W8  "+gr gm"              "g"  ""  Base
          | Legacy "sbb"         NP  One   0x83 WW G   "+gm is /3"           "g"  "L" Base
          | Legacy "sbb"         NP  One   0x1d WW G   "+ga iz"              ""   ""  Base
          | Legacy "sbb"         NP  One   0x81 WW G   "+gm iz /3"           "g"  "L" Base
          | Legacy "sbb"         NP  One   0x1c W0 W8  "+ga ib"              ""   ""  Base
          | Legacy "sbb"         NP  One   0x80 W0 W8  "+gm ib /3"           "g"  "L" Base;
And         Legacy "and"         NP  One   0x21 WW G   "+gm gr"              "g"  "L" Base
          | Legacy "and"         NP  One   0x20 W0 W8  "+gm gr"              "g"  "L" Base
          | Legacy "and"         NP  One   0x23 WW G   "+gr gm"              "g"  ""  Base
          | Legacy "and"         NP  One   0x22 W0 W8  "+gr gm"              "g"  ""  Base
          | Legacy "and"         NP  One   0x83 WW G   "+gm is /4"           "g"  "L" Base
          | Legacy "and"         NP  One   0x25 WW G   "+ga iz"              ""   ""  Base
          | Legacy "and"         NP  One   0x81 WW G   "+gm iz /4"           "g"  "L" Base
          | Legacy "and"         NP  One   0x24 W0 W8  "+ga ib"              ""   ""  Base
          | Legacy "and"         NP  One   0x80 W0 W8  "+gm ib /4"           "g"  "L" Base;
Sub         Legacy "sub"         NP  One   0x29 WW G   "+gm gr"              "g"  "L" Base
          | Legacy "sub"         NP  One   0x28 W0 W8  "+gm gr"              "g"  "L" Base
          | Legacy "sub"         NP  One   0x2b WW G   "+gr gm"              "g"  ""  Base
          | Legacy "sub"         NP  One   0x2a W0 W8  "+gr gm"              "g"  ""  Base
          | Legacy "sub"         NP  One   0x83 WW G   "+gm is /5"           "g"  "L" Base
          | Legacy "sub"         NP  One   0x2d WW G   "+ga iz"              ""   ""  Base
          | Legacy "sub"         NP  One   0x81 WW G   "+gm iz /5"           "g"  "L" Base
          | Legacy "sub"         NP  One   0x2c W0 W8  "+ga ib"              ""   ""  Base
          | Legacy "sub"         NP  One   0x80 W0 W8  "+gm ib /5"           "g"  "L" Base;
Xor         Legacy "xor"         NP  One   0x31 WW G   "+gm gr"              "g"  "L" Base
          | Legacy "xor"         NP  One   0x30 W0 W8  "+gm gr"              "g"  "L" Base
          | Legacy "xor"         NP  One   0x33 WW G   "+gr gm"              "g"  ""  Base
          | Legacy "xor"         NP  One   0x32 W0 W8  "+gr gm"              "g"  ""  Base
          | Legacy "xor"         NP  One   0x83 WW G   "+gm is /6"           "g"  "L" Base
          | Legacy "xor"         NP  One   0x35 WW G   "+ga iz"              ""   ""  Base
          | Legacy "xor"         NP  One   0x81 WW G   "+gm iz /6"           "g"  "L" Base
          | Legacy "xor"         NP  One   0x34 W0 W8  "+ga ib"              ""   ""  Base
          | Legacy "xor"         NP  One   0x80 W0 W8  "+gm ib /6"           "g"  "L" Base;
Cmp         Legacy "cmp"         NP  One   0x39 WW G   "gm gr"               "g"  ""  Base
          | Legacy "cmp"         NP  One   0x38 W0 W8  "gm gr"               "g"  ""  Base
          | Legacy "cmp"         NP  One   0x3b WW G   "gr gm"               "g"  ""  Base
          | Legacy "cmp"         NP  One   0x3a W0 W8  "gr gm"               "g"  ""  Base
          | Legacy "cmp"         NP  One   0x83 WW G   "gm is /7"            "g"  ""  Base
          | Legacy "cmp"         NP  One   0x3d WW G   "ga iz"               ""   ""  Base
          | Legacy "cmp"         NP  One   0x81 WW G   "gm iz /7"            "g"  ""  Base
          | Legacy "cmp"         NP  One   0x3c W0 W8  "ga ib"               ""   ""  Base
          | Legacy "cmp"         NP  One   0x80 W0 W8  "gm ib /7"            "g"  ""  Base;
Test        Legacy "test"        NP  One   0x85 WW G   "gm gr"               "g"  ""  Base
          | Legacy "test"        NP  One   0x84 W0 W8  "gm gr"               "g"  ""  Base
          | Legacy "test"        NP  One   0xa9 WW G   "ga iz"               ""   ""  Base
          | Legacy "test"        NP  One   0xf7 WW G   "gm iz /0"            "g"  ""  Base
          | Legacy "test"        NP  One   0xa8 W0 W8  "ga ib"               ""   ""  Base
          | Legacy "test"        NP  One   0xf6 W0 W8  "gm ib /0"            "g"  ""  Base;
Mov         Legacy "mov"         NP  One   0x89 WW G   "=gm gr"              "g"  ""  Base
          | Legacy "mov"         NP  One   0x88 W0 W8  "=gm gr"              "g"  ""  Base
          | Legacy "mov"         NP  One   0x8b WW G   "=gr gm"              "g"  ""  Base
          | Legacy "mov"         NP  One   0x8a W0 W8  "=gr gm"              "g"  ""  Base
          | Legacy "mov"         NP  One   0xb8 W0 W64 "=go iu"              ""   ""  Base
          | Legacy "mov"         NP  One   0xb8 W0 W32 "=go iz"              ""   ""  Base
          | Legacy "mov"         NP  One   0xb8 WW W16 "=go iz"              ""   ""  Base
          | Legacy "mov"         NP  One   0xb0 W0 W8  "=go ib"              ""   ""  Base
          | Legacy "mov"         NP  One   0xc7 WW G   "=gm iz /0"           "g"  ""  Base
          | Legacy "mov"         NP  One   0xc6 W0 W8  "=gm ib /0"           "g"  ""  Base
          | Legacy "mov"         NP  One   0xb8 WW W64 "=go iq"              ""   ""  Base;
Movzx8      Legacy "movzx"       NP  M0F   0xb6 WW G   "=gr bm"              "1"  ""  Base;
Movzx16     Legacy "movzx"       NP  M0F   0xb7 WW GPR "=gr wm"              "2"  ""  Base;
Movsx8      Legacy "movsx"       NP  M0F   0xbe WW G   "=gr bm"              "1"  ""  Base;
Movsx16     Legacy "movsx"       NP  M0F   0xbf WW GPR "=gr wm"              "2"  ""  Base;
Movsxd      Legacy "movsxd"      NP  One   0x63 W1 W64 "=gr dm"              "4"  ""  Base;
Movnti      Legacy "movnti"      NP  M0F   0xc3 WW GPR "=M gr"               "g"  ""  Base;
Lea         Legacy "lea"         NP  One   0x8d WW G   "=gr M"               ""   ""  Base;
Push        Legacy "push"        NP  One   0x50 W0 W64 "lo"                  ""   ""  Base
          | Legacy "push"        NP  One   0xff W0 W64 "M /6"                "8"  ""  Base
          | Legacy "push"        NP  One   0x6a W0 W64 "is"                  ""   ""  Base
          | Legacy "push"        NP  One   0x68 W0 W64 "iz"                  ""   ""  Base;
Pop         Legacy "pop"         NP  One   0x58 W0 W64 "=lo"                 ""   ""  Base
          | Legacy "pop"         NP  One   0x8f W0 W64 "=M /0"               "8"  ""  Base;
Xchg        Legacy "xchg"        NP  One   0x87 WW G   "+gm +gr"             "g"  "L" Base
          | Legacy "xchg"        NP  One   0x86 W0 W8  "+gm +gr"             "g"  "L" Base;
Xadd        Legacy "xadd"        NP  M0F   0xc1 WW G   "+gm +gr"             "g"  "L" Base
          | Legacy "xadd"        NP  M0F   0xc0 W0 W8  "+gm +gr"             "g"  "L" Base;
Cmpxchg     Legacy "cmpxchg"     NP  M0F   0xb1 WW G   "+gm gr +!a"          "g"  "L" Base
          | Legacy "cmpxchg"     NP  M0F   0xb0 W0 W8  "+gm gr +!a"          "g"  "L" Base;
Cmpxchg16b  Legacy "cmpxchg16b"  NP  M0F   0xc7 W1 W64 "+M +!d +!a !b !c /1" "16" "L" Cx16;
Inc         Legacy "inc"         NP  One   0xff WW G   "+gm /0"              "g"  "L" Base
          | Legacy "inc"         NP  One   0xfe W0 W8  "+gm /0"              "g"  "L" Base;
Dec         Legacy "dec"         NP  One   0xff WW G   "+gm /1"              "g"  "L" Base
          | Legacy "dec"         NP  One   0xfe W0 W8  "+gm /1"              "g"  "L" Base;
Not         Legacy "not"         NP  One   0xf7 WW G   "+gm /2"              "g"  "L" Base
          | Legacy "not"         NP  One   0xf6 W0 W8  "+gm /2"              "g"  "L" Base;
Neg         Legacy "neg"         NP  One   0xf7 WW G   "+gm /3"              "g"  "L" Base
          | Legacy "neg"         NP  One   0xf6 W0 W8  "+gm /3"              "g"  "L" Base;
Imul        Legacy "imul"        NP  M0F   0xaf WW G   "+gr gm"              "g"  ""  Base;
ImulImm     Legacy "imul"        NP  One   0x6b WW G   "=gr gm is"           "g"  ""  Base
          | Legacy "imul"        NP  One   0x69 WW G   "=gr gm iz"           "g"  ""  Base;
Mul         Legacy "mul"         NP  One   0xf7 WW G   "gm +!a =!d /4"       "g"  ""  Base
          | Legacy "mul"         NP  One   0xf6 W0 W8  "gm +!a /4"           "g"  ""  Base;
ImulWide    Legacy "imul"        NP  One   0xf7 WW G   "gm +!a =!d /5"       "g"  ""  Base
          | Legacy "imul"        NP  One   0xf6 W0 W8  "gm +!a /5"           "g"  ""  Base;
Div         Legacy "div"         NP  One   0xf7 WW G   "gm +!a +!d /6"       "g"  ""  Base
          | Legacy "div"         NP  One   0xf6 W0 W8  "gm +!a /6"           "g"  ""  Base;
Idiv        Legacy "idiv"        NP  One   0xf7 WW G   "gm +!a +!d /7"       "g"  ""  Base
          | Legacy "idiv"        NP  One   0xf6 W0 W8  "gm +!a /7"           "g"  ""  Base;
Cdq         Legacy "cwd"         NP  One   0x99 WW W16 "!a =!d"              ""   ""  Base
          | Legacy "cdq"         NP  One   0x99 WW W32 "!a =!d"              ""   ""  Base
          | Legacy "cqo"         NP  One   0x99 WW W64 "!a =!d"              ""   ""  Base;
Rol         Legacy "rol"         NP  One   0xd1 WW G   "+gm i1 /0"           "g"  ""  Base
          | Legacy "rol"         NP  One   0xd0 W0 W8  "+gm i1 /0"           "g"  ""  Base
          | Legacy "rol"         NP  One   0xc1 WW G   "+gm ib /0"           "g"  ""  Base
          | Legacy "rol"         NP  One   0xc0 W0 W8  "+gm ib /0"           "g"  ""  Base;
RolCl       Legacy "rol"         NP  One   0xd3 WW G   "+gm !c /0"           "g"  ""  Base
          | Legacy "rol"         NP  One   0xd2 W0 W8  "+gm !c /0"           "g"  ""  Base;
Ror         Legacy "ror"         NP  One   0xd1 WW G   "+gm i1 /1"           "g"  ""  Base
          | Legacy "ror"         NP  One   0xd0 W0 W8  "+gm i1 /1"           "g"  ""  Base
          | Legacy "ror"         NP  One   0xc1 WW G   "+gm ib /1"           "g"  ""  Base
          | Legacy "ror"         NP  One   0xc0 W0 W8  "+gm ib /1"           "g"  ""  Base;
RorCl       Legacy "ror"         NP  One   0xd3 WW G   "+gm !c /1"           "g"  ""  Base
          | Legacy "ror"         NP  One   0xd2 W0 W8  "+gm !c /1"           "g"  ""  Base;
Rcl         Legacy "rcl"         NP  One   0xd1 WW G   "+gm i1 /2"           "g"  ""  Base
          | Legacy "rcl"         NP  One   0xd0 W0 W8  "+gm i1 /2"           "g"  ""  Base
          | Legacy "rcl"         NP  One   0xc1 WW G   "+gm ib /2"           "g"  ""  Base
          | Legacy "rcl"         NP  One   0xc0 W0 W8  "+gm ib /2"           "g"  ""  Base;
RclCl       Legacy "rcl"         NP  One   0xd3 WW G   "+gm !c /2"           "g"  ""  Base
          | Legacy "rcl"         NP  One   0xd2 W0 W8  "+gm !c /2"           "g"  ""  Base;
Rcr         Legacy "rcr"         NP  One   0xd1 WW G   "+gm i1 /3"           "g"  ""  Base
          | Legacy "rcr"         NP  One   0xd0 W0 W8  "+gm i1 /3"           "g"  ""  Base
          | Legacy "rcr"         NP  One   0xc1 WW G   "+gm ib /3"           "g"  ""  Base
          | Legacy "rcr"         NP  One   0xc0 W0 W8  "+gm ib /3"           "g"  ""  Base;
RcrCl       Legacy "rcr"         NP  One   0xd3 WW G   "+gm !c /3"           "g"  ""  Base
          | Legacy "rcr"         NP  One   0xd2 W0 W8  "+gm !c /3"           "g"  ""  Base;
Shl         Legacy "shl"         NP  One   0xd1 WW G   "+gm i1 /4"           "g"  ""  Base
          | Legacy "shl"         NP  One   0xd0 W0 W8  "+gm i1 /4"           "g"  ""  Base
          | Legacy "shl"         NP  One   0xc1 WW G   "+gm ib /4"           "g"  ""  Base
          | Legacy "shl"         NP  One   0xc0 W0 W8  "+gm ib /4"           "g"  ""  Base;
ShlCl       Legacy "shl"         NP  One   0xd3 WW G   "+gm !c /4"           "g"  ""  Base
          | Legacy "shl"         NP  One   0xd2 W0 W8  "+gm !c /4"           "g"  ""  Base;
Shr         Legacy "shr"         NP  One   0xd1 WW G   "+gm i1 /5"           "g"  ""  Base
          | Legacy "shr"         NP  One   0xd0 W0 W8  "+gm i1 /5"           "g"  ""  Base
          | Legacy "shr"         NP  One   0xc1 WW G   "+gm ib /5"           "g"  ""  Base
          | Legacy "shr"         NP  One   0xc0 W0 W8  "+gm ib /5"           "g"  ""  Base;
ShrCl       Legacy "shr"         NP  One   0xd3 WW G   "+gm !c /5"           "g"  ""  Base
          | Legacy "shr"         NP  One   0xd2 W0 W8  "+gm !c /5"           "g"  ""  Base;
Sar         Legacy "sar"         NP  One   0xd1 WW G   "+gm i1 /7"           "g"  ""  Base
          | Legacy "sar"         NP  One   0xd0 W0 W8  "+gm i1 /7"           "g"  ""  Base
          | Legacy "sar"         NP  One   0xc1 WW G   "+gm ib /7"           "g"  ""  Base
          | Legacy "sar"         NP  One   0xc0 W0 W8  "+gm ib /7"           "g"  ""  Base;
SarCl       Legacy "sar"         NP  One   0xd3 WW G   "+gm !c /7"           "g"  ""  Base
          | Legacy "sar"         NP  One   0xd2 W0 W8  "+gm !c /7"           "g"  ""  Base;
Shld        Legacy "shld"        NP  M0F   0xa4 WW G   "+gm gr ib"           "g"  ""  Base;
ShldCl      Legacy "shld"        NP  M0F   0xa5 WW G   "+gm gr !c"           "g"  ""  Base;
Shrd        Legacy "shrd"        NP  M0F   0xac WW G   "+gm gr ib"           "g"  ""  Base;
ShrdCl      Legacy "shrd"        NP  M0F   0xad WW G   "+gm gr !c"           "g"  ""  Base;
Bswap       Legacy "bswap"       NP  M0F   0xc8 WW GPR "+go"                 ""   ""  Base;
Popcnt      Legacy "popcnt"      PF3 M0F   0xb8 WW G   "=gr gm"              "g"  ""  Popcnt;
Lzcnt       Legacy "lzcnt"       PF3 M0F   0xbd WW G   "=gr gm"              "g"  ""  Lzcnt;
Tzcnt       Legacy "tzcnt"       PF3 M0F   0xbc WW G   "=gr gm"              "g"  ""  Bmi1;
Bsf         Legacy "bsf"         NP  M0F   0xbc WW G   "+gr gm"              "g"  ""  Base;
Bsr         Legacy "bsr"         NP  M0F   0xbd WW G   "+gr gm"              "g"  ""  Base;
Bt          Legacy "bt"          NP  M0F   0xa3 WW G   "gm gr"               "g"  ""  Base
          | Legacy "bt"          NP  M0F   0xba WW G   "gm ib /4"            "g"  ""  Base;
Bts         Legacy "bts"         NP  M0F   0xab WW G   "+gm gr"              "g"  "L" Base
          | Legacy "bts"         NP  M0F   0xba WW G   "+gm ib /5"           "g"  "L" Base;
Btr         Legacy "btr"         NP  M0F   0xb3 WW G   "+gm gr"              "g"  "L" Base
          | Legacy "btr"         NP  M0F   0xba WW G   "+gm ib /6"           "g"  "L" Base;
Btc         Legacy "btc"         NP  M0F   0xbb WW G   "+gm gr"              "g"  "L" Base
          | Legacy "btc"         NP  M0F   0xba WW G   "+gm ib /7"           "g"  "L" Base;
Setcc       Legacy "set"         NP  M0F   0x90 W0 W8  "c =gm"               "g"  ""  Base;
Cmovcc      Legacy "cmov"        NP  M0F   0x40 WW G   "c +gr gm"            "g"  ""  Base;
Jcc         Legacy "j"           NP  One   0x70 W0 W64 "c jb"                ""   ""  Base
          | Legacy "j"           NP  M0F   0x80 W0 W64 "c jz"                ""   ""  Base;
Jmp         Legacy "jmp"         NP  One   0xeb W0 W64 "jb"                  ""   ""  Base
          | Legacy "jmp"         NP  One   0xe9 W0 W64 "jz"                  ""   ""  Base
          | Legacy "jmp"         NP  One   0xff W0 W64 "lm /4"               "8"  ""  Base;
Call        Legacy "call"        NP  One   0xe8 W0 W64 "jz"                  ""   ""  Base
          | Legacy "call"        NP  One   0xff W0 W64 "lm /2"               "8"  ""  Base;
Ret         Legacy "ret"         NP  One   0xc3 W0 W64 ""                    ""   ""  Base;
Ud2         Legacy "ud2"         NP  M0F   0x0b W0 W64 ""                    ""   ""  Base;
Int3        Legacy "int3"        NP  One   0xcc W0 W64 ""                    ""   ""  Base;
Lfence      Legacy "lfence"      NP  M0F   0xae W0 W64 "/5"                  ""   ""  Base;
Mfence      Legacy "mfence"      NP  M0F   0xae W0 W64 "/6"                  ""   ""  Base;
Sfence      Legacy "sfence"      NP  M0F   0xae W0 W64 "/7"                  ""   ""  Base;
Pause       Legacy "pause"       PF3 One   0x90 W0 W64 ""                    ""   ""  Base;
Rdtsc       Legacy "rdtsc"       NP  M0F   0x31 W0 W64 "=!a =!d"             ""   ""  Base;
Prefetcht0  Legacy "prefetcht0"  NP  M0F   0x18 W0 W64 "M /1"                "1"  ""  Base;
Prefetcht1  Legacy "prefetcht1"  NP  M0F   0x18 W0 W64 "M /2"                "1"  ""  Base;
Prefetcht2  Legacy "prefetcht2"  NP  M0F   0x18 W0 W64 "M /3"                "1"  ""  Base;
Prefetchnta Legacy "prefetchnta" NP  M0F   0x18 W0 W64 "M /0"                "1"  ""  Base;
Prefetchw   Legacy "prefetchw"   NP  M0F   0x0d W0 W64 "M /1"                "1"  ""  Prefetchw;
Andn        Vex    "andn"        NP  M0F38 0xf2 WW GPR "=gr gv gm"           "g"  ""  Bmi1;
Bextr       Vex    "bextr"       NP  M0F38 0xf7 WW GPR "=gr gm gv"           "g"  ""  Bmi1;
Blsi        Vex    "blsi"        NP  M0F38 0xf3 WW GPR "=gv gm /3"           "g"  ""  Bmi1;
Blsr        Vex    "blsr"        NP  M0F38 0xf3 WW GPR "=gv gm /1"           "g"  ""  Bmi1;
Blsmsk      Vex    "blsmsk"      NP  M0F38 0xf3 WW GPR "=gv gm /2"           "g"  ""  Bmi1;
Bzhi        Vex    "bzhi"        NP  M0F38 0xf5 WW GPR "=gr gm gv"           "g"  ""  Bmi2;
Mulx        Vex    "mulx"        PF2 M0F38 0xf6 WW GPR "=gr =gv gm !d"       "g"  ""  Bmi2;
Pdep        Vex    "pdep"        PF2 M0F38 0xf5 WW GPR "=gr gv gm"           "g"  ""  Bmi2;
Pext        Vex    "pext"        PF3 M0F38 0xf5 WW GPR "=gr gv gm"           "g"  ""  Bmi2;
Rorx        Vex    "rorx"        PF2 M0F3A 0xf0 WW GPR "=gr gm ib"           "g"  ""  Bmi2;
Sarx        Vex    "sarx"        PF3 M0F38 0xf7 WW GPR "=gr gm gv"           "g"  ""  Bmi2;
Shlx        Vex    "shlx"        P66 M0F38 0xf7 WW GPR "=gr gm gv"           "g"  ""  Bmi2;
Shrx        Vex    "shrx"        PF2 M0F38 0xf7 WW GPR "=gr gm gv"           "g"  ""  Bmi2;
    }};
}
