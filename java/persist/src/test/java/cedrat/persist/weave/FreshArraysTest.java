package cedrat.persist.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.memory.Fields;
import cedrat.persist.memory.MemoFields;
import java.lang.classfile.ClassFile;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.Label;
import java.lang.classfile.MethodModel;
import java.lang.classfile.TypeKind;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/// J1e.
class FreshArraysTest {
    private static final ClassDesc OTHER = ClassDesc.of("Other");
    private static final ClassDesc INTS = ConstantDescs.CD_int.arrayType();
    private static final ClassDesc OBJECTS = ConstantDescs.CD_Object.arrayType();

    /// Returns the number of barriers before stores to arrays in a class initialiser whose code leaves an array on
    /// the stack.
    private static long barriers(Consumer<CodeBuilder> instructions) throws UnstructuredException {
        byte[] original = ClassFile.of().build(ClassDesc.of("Strange"), type -> type.withField(
                        "TABLE", INTS, ClassFile.ACC_STATIC | ClassFile.ACC_FINAL)
                .withMethodBody(ConstantDescs.CLASS_INIT_NAME, ConstantDescs.MTD_void, ClassFile.ACC_STATIC, code -> {
                    instructions.accept(code);
                    code.putstatic(ClassDesc.of("Strange"), "TABLE", INTS).return_();
                }));
        byte[] woven = new Weaver(new Fields(declaring -> {}, new MemoFields(List.of())), new Classes(null))
                .weave(original, Weaver.Kind.APPLICATION, FreshArraysTest.class.getClassLoader(), false, false);
        MethodModel initializer = ClassFile.of().parse(woven).methods().getFirst();
        return initializer
                .code()
                .orElseThrow()
                .elementStream()
                .filter(element ->
                        element instanceof InvokeInstruction call && call.name().equalsString("beforeElement"))
                .count();
    }

    private static CodeBuilder array(CodeBuilder code, int length) {
        return code.loadConstant(length).newarray(TypeKind.INT);
    }

    /// array → array
    private static CodeBuilder store(CodeBuilder code, int index) {
        return code.dup().loadConstant(index).loadConstant(index).iastore();
    }

    @Test
    void tableOfConstantsHasNone() throws UnstructuredException {
        assertEquals(0, barriers(code -> {
            array(code, 6500);
            for (int index = 0; index < 6500; index++) {
                store(code, index);
            }
        }));
    }

    @Test
    void nestedArrayHasNone() throws UnstructuredException {
        assertEquals(0, barriers(code -> {
            code.iconst_1().anewarray(INTS).dup().iconst_0();
            store(array(code, 1), 0).aastore().iconst_0().aaload().checkcast(INTS);
        }));
    }

    @Test
    void argumentOfCallHasBarriers() throws UnstructuredException {
        assertEquals(1, barriers(code -> {
            store(array(code, 2), 0).dup();
            code.invokestatic(OTHER, "see", MethodTypeDesc.of(ConstantDescs.CD_void, INTS));
            store(code, 1);
        }));
    }

    @Test
    void variableHasBarriers() throws UnstructuredException {
        assertEquals(2, barriers(code -> {
            array(code, 2).dup().astore(0);
            store(code, 0).pop();
            store(code.aload(0), 1);
        }));
    }

    @Test
    void elementOfOtherArrayHasBarriers() throws UnstructuredException {
        assertEquals(2, barriers(code -> {
            array(code, 1).dup().getstatic(OTHER, "arrays", OBJECTS).swap();
            code.iconst_0().swap().aastore();
            store(code, 0);
        }));
    }

    @Test
    void arrayBehindBranchHasBarriers() throws UnstructuredException {
        assertEquals(1, barriers(code -> {
            Label here = code.newLabel();
            store(array(code, 2), 0).iconst_0().ifeq(here).nop().labelBinding(here);
            store(code, 1);
        }));
    }
}
