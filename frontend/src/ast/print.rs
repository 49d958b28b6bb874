//! The text form of a syntax tree, for `margay dis --ast`: one line for each node. The lines of a node's children
//! follow the node's line and are indented more.
//!
//! The first word of a line is the kind of the node. The text can differ from the PTX source: a
//! constant expression is printed as its value, and a declaration of several names is printed as
//! several nodes.

use std::fmt::{self, Display, Write};

use super::{
    Attribute, BranchTarget, Constant, Directive, DirectiveKind, DwarfLine, DwarfValue, Function,
    FunctionKind, Ident, Initializer, InitializerKind, Instruction, Item, Linkage, List, Location,
    Module, Operand, OperandKind, Prefix, Prototype, Section, SourcePosition, Statement, Targets,
    Variable, VectorSize,
};

/// Returns the text form of a module's syntax tree.
pub fn tree(module: &Module) -> String {
    let mut printer = Printer {
        module,
        text: String::new(),
        depth: 0,
    };
    printer.header();
    for item in &module.items {
        printer.item(item);
    }
    printer.text
}

struct Printer<'m> {
    module: &'m Module,
    text: String,
    depth: usize,
}

impl Printer<'_> {
    /// Writes the line of a node.
    fn line(&mut self, node: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{:1$}{node}", "", 2 * self.depth);
    }

    /// Writes the line of a node, and calls `children` to write the indented lines of its children.
    fn node(&mut self, node: impl Display, children: impl FnOnce(&mut Self)) {
        self.line(node);
        self.depth += 1;
        children(self);
        self.depth -= 1;
    }

    fn name(&self, ident: Ident) -> String {
        self.module.text(ident.name).to_owned()
    }

    fn words(&self, list: List<Ident>) -> String {
        let words: Vec<&str> = self.module[list]
            .iter()
            .map(|word| self.module.text(word.name))
            .collect();
        words.join(" ")
    }

    fn header(&mut self) {
        self.line("module");
        self.depth += 1;
        if let Some((version, _)) = self.module.version {
            self.line(format_args!("version {}.{}", version.major, version.minor));
        }
        if let Some(target) = &self.module.target {
            let words = self.words(target.words);
            self.line(format_args!("target {words}"));
        }
        if let Some((bits, _)) = self.module.address_size {
            self.line(format_args!("address_size {bits}"));
        }
    }

    fn item(&mut self, item: &Item) {
        let module = self.module;
        match *item {
            Item::Function(id) => self.function(&module[id]),
            Item::Variable(id) => self.variable("variable", &module[id]),
            Item::Alias(id) => {
                let (name, target) = (self.name(module[id].name), self.name(module[id].target));
                self.line(format_args!("alias {name} {target}"));
            }
            Item::Pragma(list) => self.pragma(list),
            Item::File(id) => {
                let name = self.name(module[id].name);
                self.line(format_args!("file {} \"{name}\"", module[id].index));
            }
            Item::Section(id) => self.section(&module[id]),
            Item::Dwarf(id) => self.dwarf(&module[id]),
        }
    }

    fn pragma(&mut self, list: List<Ident>) {
        for word in &self.module[list] {
            let text = self.name(*word);
            self.line(format_args!("pragma \"{text}\""));
        }
    }

    fn section(&mut self, section: &Section) {
        let name = self.name(section.name);
        self.node(format_args!("section {name}"), |printer| {
            for line in &printer.module[section.lines] {
                printer.dwarf(line);
            }
        });
    }

    fn dwarf(&mut self, line: &DwarfLine) {
        match *line {
            DwarfLine::Label(label) => {
                let name = self.name(label);
                self.line(format_args!("label {name}"));
            }
            DwarfLine::Data { bytes, values } => {
                let values: Vec<String> = self.module[values]
                    .iter()
                    .map(|value| self.dwarf_value(value))
                    .collect();
                self.line(format_args!(
                    "data b{} {}",
                    8 * u32::from(bytes),
                    values.join(" ")
                ));
            }
            DwarfLine::Words(words) => {
                let words = self.words(words);
                self.line(format_args!("dwarf {words}"));
            }
        }
    }

    fn dwarf_value(&self, value: &DwarfValue) -> String {
        let text = |name| self.module.text(name);
        match *value {
            DwarfValue::Int(number) => number.to_string(),
            DwarfValue::Address(name, offset) => with_offset(text(name), offset),
            DwarfValue::Difference(end, start) => format!("{}-{}", text(end), text(start)),
        }
    }

    fn function(&mut self, function: &Function) {
        let kind = match function.kind {
            FunctionKind::Entry => "entry",
            FunctionKind::Func => "func",
        };
        let name = self.name(function.name);
        let linkage = linkage(function.linkage);
        self.node(format_args!("{kind} {name}{linkage}"), |printer| {
            printer.attributes(function.attributes);
            printer.signature(function.returns, function.parameters, function.directives);
            if let Some(body) = function.body {
                printer.node("body", |printer| printer.statements(body));
            }
        });
    }

    fn attributes(&mut self, list: List<Attribute>) {
        for attribute in &self.module[list] {
            match attribute {
                Attribute::Managed => self.line("attribute managed"),
                Attribute::Unified(high, low) => {
                    self.line(format_args!("attribute unified {high} {low}"))
                }
            }
        }
    }

    fn directive(&mut self, directive: DirectiveKind) {
        use DirectiveKind as D;
        let three = |name, [x, y, z]: [u64; 3]| format!("{name} {x} {y} {z}");
        let text = match directive {
            D::MaxRegisters(n) => format!("maxnreg {n}"),
            D::MaxThreads(extent) => three("maxntid", extent),
            D::RequiredThreads(extent) => three("reqntid", extent),
            D::MinCtasPerSm(n) => format!("minnctapersm {n}"),
            D::MaxCtasPerSm(n) => format!("maxnctapersm {n}"),
            D::RequiredCtasPerCluster(extent) => three("reqnctapercluster", extent),
            D::ExplicitCluster => "explicitcluster".to_owned(),
            D::MaxClusterRank(n) => format!("maxclusterrank {n}"),
            D::BlocksAreClusters => "blocksareclusters".to_owned(),
            D::NoReturn => "noreturn".to_owned(),
            D::AbiPreserve(n) => format!("abi_preserve {n}"),
            D::AbiPreserveControl(n) => format!("abi_preserve_control {n}"),
            D::Pragma(list) => return self.pragma(list),
        };
        self.line(text);
    }

    fn variable(&mut self, kind: &str, variable: &Variable) {
        let mut text = format!(
            "{kind} {} .{}",
            self.name(variable.name),
            variable.space.word()
        );
        // Writing to a string does not fail.
        if let Some(bank) = variable.bank {
            let _ = write!(text, "[{bank}]");
        }
        if variable.vector != VectorSize::Scalar {
            let _ = write!(text, " .v{}", variable.vector.count());
        }
        let _ = write!(text, " {}", variable.scalar);
        if let Some(align) = variable.align {
            let _ = write!(text, " .align {align}");
        }
        if let Some(count) = variable.range {
            let _ = write!(text, " <{count}>");
        }
        for dimension in &self.module[variable.dimensions] {
            let _ = match dimension.length {
                Some(length) => write!(text, " [{length}]"),
                None => write!(text, " []"),
            };
        }
        if let Some(pointer) = variable.pointer {
            text.push_str(" .ptr");
            if let Some(space) = pointer.space {
                let _ = write!(text, " {space}");
            }
            if let Some(align) = pointer.align {
                let _ = write!(text, " .align {align}");
            }
        }
        text.push_str(linkage(variable.linkage));
        self.node(text, |printer| {
            printer.attributes(variable.attributes);
            if let Some(id) = variable.initializer {
                printer.initializer(&printer.module[id]);
            }
        });
    }

    fn initializer(&mut self, initializer: &Initializer) {
        let module = self.module;
        match initializer.kind {
            InitializerKind::Constant(value) => self.line(Value(value)),
            InitializerKind::Address {
                name,
                offset,
                generic,
                byte,
            } => {
                let mut text = with_offset(module.text(name), offset);
                if generic {
                    text = format!("generic {text}");
                }
                if let Some(byte) = byte {
                    // Writing to a string does not fail.
                    let _ = write!(text, " byte {byte}");
                }
                self.line(format_args!("address {text}"));
            }
            InitializerKind::List(list) => self.node("list", |printer| {
                for value in module.values(list) {
                    printer.initializer(&value);
                }
            }),
            InitializerKind::Properties(list) => {
                for property in &module[list] {
                    let key = self.name(property.key);
                    match property.value {
                        super::PropertyValue::Word(word) => {
                            let word = self.name(word);
                            self.line(format_args!("property {key} {word}"));
                        }
                        super::PropertyValue::Constant(value) => {
                            self.line(format_args!("property {key} {}", Value(value)));
                        }
                    }
                }
            }
        }
    }

    /// Writes the statements of a body. The statements of an inner scope are indented more.
    fn statements(&mut self, body: List<Statement>) {
        let module = self.module;
        for statement in &module[body] {
            match *statement {
                Statement::Instruction(ref instruction) => self.instruction(instruction),
                Statement::Label(label) => {
                    let name = self.name(label);
                    self.line(format_args!("label {name}"));
                }
                Statement::Variable(id) => self.variable("variable", &module[id]),
                Statement::ScopeBegin(_) => {
                    self.line("scope");
                    self.depth += 1;
                }
                Statement::ScopeEnd(_) => self.depth -= 1,
                Statement::BranchTargets(id) => self.targets("branchtargets", &module[id]),
                Statement::CallTargets(id) => self.targets("calltargets", &module[id]),
                Statement::CallPrototype(id) => self.prototype(&module[id]),
                Statement::Pragma(list) => self.pragma(list),
            }
        }
    }

    fn targets(&mut self, kind: &str, targets: &Targets) {
        let label = self.name(targets.label);
        let one = |target: &BranchTarget| match target.range {
            Some(count) => format!("{}<{count}>", self.name(target.name)),
            None => self.name(target.name),
        };
        let all: Vec<String> = self.module[targets.targets].iter().map(one).collect();
        self.line(format_args!("{kind} {label} {}", all.join(" ")));
    }

    fn prototype(&mut self, prototype: &Prototype) {
        let label = self.name(prototype.label);
        self.node(format_args!("callprototype {label}"), |printer| {
            printer.signature(
                prototype.returns,
                prototype.parameters,
                prototype.directives,
            );
        });
    }

    fn signature(
        &mut self,
        returns: List<Variable>,
        parameters: List<Variable>,
        directives: List<Directive>,
    ) {
        let module = self.module;
        for variable in &module[returns] {
            self.variable("return", variable);
        }
        for variable in &module[parameters] {
            self.variable("param", variable);
        }
        for directive in &module[directives] {
            self.directive(directive.kind);
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        let module = self.module;
        let spelling = module.spelling(instruction);
        self.node(format_args!("instruction {spelling}"), |printer| {
            if let Some(id) = instruction.location {
                printer.location(&module[id]);
            }
            if let Some(id) = instruction.guard {
                let guard = &module[id];
                let not = if guard.negated { "!" } else { "" };
                let register = printer.name(guard.register);
                printer.line(format_args!("guard {not}{register}"));
            }
            printer.operands(instruction.operands);
        });
    }

    fn location(&mut self, location: &Location) {
        let place = |at: SourcePosition| format!("{} {} {}", at.file, at.line, at.column);
        let inlined = location
            .inlined_at
            .map_or(String::new(), |at| format!(" inlined_at {}", place(at)));
        self.line(format_args!("loc {}{inlined}", place(location.position)));
    }

    fn operands(&mut self, list: List<Operand>) {
        for operand in &self.module[list] {
            self.operand(operand);
        }
    }

    fn operand(&mut self, operand: &Operand) {
        let module = self.module;
        let text = |name| module.text(name);
        match operand.kind {
            OperandKind::Name(name) => self.line(format_args!("name {}", text(name))),
            OperandKind::Component { base, selector } => {
                self.line(format_args!("component {}.{}", text(base), text(selector)));
            }
            OperandKind::Prefixed {
                prefix,
                base,
                selector,
            } => {
                let prefix = match prefix {
                    Prefix::Not => '!',
                    Prefix::Minus => '-',
                };
                let selector =
                    selector.map_or(String::new(), |selector| format!(".{}", text(selector)));
                self.line(format_args!("prefixed {prefix}{}{selector}", text(base)));
            }
            OperandKind::Sink => self.line("sink _"),
            OperandKind::Constant(value) => self.line(Value(value)),
            OperandKind::Offset { base, offset } => {
                self.line(format_args!("offset {}", with_offset(text(base), offset)));
            }
            OperandKind::Element {
                base,
                register,
                offset,
            } => {
                let index = match register {
                    Some(register) => with_offset(text(register), offset),
                    None => offset.to_string(),
                };
                self.line(format_args!("element {}[{index}]", text(base)));
            }
            OperandKind::Memory { base, offset } => {
                self.line(format_args!("memory [{}]", with_offset(text(base), offset)));
            }
            OperandKind::MemoryAt(address) => self.line(format_args!("memory [{address}]")),
            OperandKind::MemoryTuple(parts) => {
                self.node("tuple", |printer| printer.operands(parts))
            }
            OperandKind::Vector(parts) => self.node("vector", |printer| printer.operands(parts)),
            OperandKind::Pair(parts) => self.node("pair", |printer| printer.operands(parts)),
            OperandKind::Group(parts) => self.node("group", |printer| printer.operands(parts)),
        }
    }
}

/// Returns the directive of a linkage with a space before it, such as ` .weak`. Returns an empty text for internal
/// linkage.
fn linkage(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Internal => "",
        Linkage::Extern => " .extern",
        Linkage::Visible => " .visible",
        Linkage::Weak => " .weak",
        Linkage::Common => " .common",
    }
}

fn with_offset(name: &str, offset: i64) -> String {
    match offset {
        0 => name.to_owned(),
        _ => format!("{name}{offset:+}"),
    }
}

/// Formats a constant as the line of a node, such as `integer 5U`.
struct Value(Constant);

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Constant::Int {
                bits,
                unsigned: true,
            } => write!(f, "integer {bits}U"),
            Constant::Int {
                bits,
                unsigned: false,
            } => write!(f, "integer {}", bits as i64),
            Constant::Double(bits) => write!(f, "double 0d{bits:016X}"),
            Constant::Single(bits) => write!(f, "single 0f{bits:08X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceFile;

    #[test]
    fn each_node_has_a_line() {
        let text = r#".version 8.0
.target sm_80, debug
.address_size 64
.file 1 "a.cu"
.extern .shared .align 4 .b8 pool[];
.const .v2 .f32 table[2] = {{1.0, 0f40000000}, 3U};
.visible .func (.param .b32 r) twice(.param .b32 a) .noreturn { ret; }
.visible .entry k(.param .u64 .ptr .global .align 8 p)
.maxntid 32, 2
{
    .reg .b32 %r<4>; .reg .pred %p;
    .loc 1 7 3
    @!%p add.cc.u32 %r1, %r2, -5;
L:
    {
        ld.global.v2.u32 {%r1, _}, [%r2+16];
        call (r), twice, (%r1);
    }
    setp.eq.u32 %p|%p, %tid.x, !%p;
    bra L;
}
"#;
        let tree = tree(&crate::parse(SourceFile::new("a", text)).module);
        let wanted = "\
module
  version 8.0
  target sm_80 debug
  address_size 64
  file 1 \"a.cu\"
  variable pool .shared .b8 .align 4 [] .extern
  variable table .const .v2 .f32 [2]
    list
      list
        double 0d3FF0000000000000
        single 0f40000000
      integer 3U
  func twice .visible
    return r .param .b32
    param a .param .b32
    noreturn
    body
      instruction ret
  entry k .visible
    param p .param .u64 .ptr .global .align 8
    maxntid 32 2 1
    body
      variable %r .reg .b32 <4>
      variable %p .reg .pred
      instruction add.cc.u32
        loc 1 7 3
        guard !%p
        name %r1
        name %r2
        integer -5
      label L
      scope
        instruction ld.global.v2.u32
          loc 1 7 3
          vector
            name %r1
            sink _
          memory [%r2+16]
        instruction call
          loc 1 7 3
          group
            name r
          name twice
          group
            name %r1
      instruction setp.eq.u32
        loc 1 7 3
        pair
          name %p
          name %p
        component %tid.x
        prefixed !%p
      instruction bra
        loc 1 7 3
        name L
";
        assert_eq!(tree, wanted);
    }

    #[test]
    fn old_kernels_declare_parameters_in_their_bodies() {
        let text = ".version 1.3\n.target sm_10\n.entry k {\n.reg .u32 %r;\n.param .u32 a; .param .f32 b;\nret;\n}\n";
        let wanted = "
  entry k
    param a .param .u32
    param b .param .f32
    body
      variable %r .reg .u32
      instruction ret
";
        let printed = |text: &str| tree(&crate::parse(SourceFile::new("a", text)).module);
        assert!(printed(text).ends_with(wanted), "{}", printed(text));
        let newer = printed(&text.replace("1.3", "1.4"));
        assert!(newer.contains("variable a .param .u32"), "{newer}");
    }

    #[test]
    fn the_name_of_a_file_can_be_broken() {
        let head = ".version 3.1\n.target sm_20\n";
        let parsed = |text: &str| crate::parse(SourceFile::new("a", format!("{head}{text}")));
        let broken = parsed(".file 3 \"c:/a\n.h\"\n.file 4 \"b\"\n");
        assert!(!broken.has_errors(), "{:?}", broken.diagnostics);
        let tree = tree(&broken.module);
        assert!(
            tree.ends_with("  file 3 \"c:/a\n.h\"\n  file 4 \"b\"\n"),
            "{tree}"
        );
        assert!(parsed(".file 3 \"a\n.global .u32 x;\n").has_errors());
        assert!(parsed(".file 3 \"a\n.h\" .global .u32 x;\n").has_errors());
    }
}
