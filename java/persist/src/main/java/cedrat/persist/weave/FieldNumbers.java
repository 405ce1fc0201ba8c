package cedrat.persist.weave;

import cedrat.persist.memory.Fields;
import java.lang.classfile.CodeBuilder;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.DirectMethodHandleDesc;
import java.lang.constant.DynamicConstantDesc;

/// Instructions that load the numbers by which barriers name fields.
///
/// **Threads:** any.
interface FieldNumbers {
    /// … → …, number
    ///
    /// @param owner the binary name of the class that the instruction names
    void load(CodeBuilder code, String owner, String name, boolean isStatic);

    /// Numbers of this process, as constants. The code is loaded in no other process.
    static FieldNumbers ofProcess(Fields fields) {
        return (code, owner, name, isStatic) -> code.loadConstant(fields.add(owner, name, isStatic));
    }

    /// Numbers that the process which loads the code assigns when the code first runs: dynamic constants, which class
    /// files of Java 11 and later have.
    static FieldNumbers ofClassFiles() {
        DirectMethodHandleDesc number = ConstantDescs.ofConstantBootstrap(
                ClassDesc.of("cedrat.persist.boot.Barrier"),
                "number",
                ConstantDescs.CD_int,
                ConstantDescs.CD_String,
                ConstantDescs.CD_int);
        return (code, owner, name, isStatic) -> code.loadConstant(
                DynamicConstantDesc.ofNamed(number, name, ConstantDescs.CD_int, owner, isStatic ? 1 : 0));
    }
}
