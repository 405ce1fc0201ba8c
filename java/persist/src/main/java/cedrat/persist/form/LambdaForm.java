package cedrat.persist.form;

import cedrat.persist.StoreException;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import java.io.Serializable;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.SerializedLambda;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/// Lambdas that are serialisable: the class that has them, by what they were compiled to, and what they have
/// captured. It is Java's own form of them, so its rules hold: a lambda is found as long as its class is
/// compiled from the same source.
final class LambdaForm extends Form {
    private final Forms forms;

    LambdaForm(Forms forms) {
        super("java.lang.invoke.SerializedLambda");
        this.forms = forms;
    }

    static boolean isLambda(Object object) {
        return object instanceof Serializable
                && object.getClass().isHidden()
                && object.getClass().isSynthetic();
    }

    /// A lambda that has captured nothing is one for its whole program.
    @Override
    boolean mayChange() {
        return false;
    }

    @Override
    void write(Object object, ObjectWriter out) {
        SerializedLambda form;
        try {
            Method method = object.getClass().getDeclaredMethod("writeReplace");
            forms.open(object.getClass());
            method.setAccessible(true);
            form = (SerializedLambda) method.invoke(object);
        } catch (NoSuchMethodException | IllegalAccessException e) {
            throw out.refuse(
                    "it is a lambda that is not serialisable: cast the lambda to Serializable, or write a class");
        } catch (InvocationTargetException e) {
            throw out.refuse("its method writeReplace has thrown " + e.getCause());
        }
        String capturing = form.getCapturingClass().replace('/', '.');
        out.putText(forms.checkedName(capturing, out));
        out.putText(form.getFunctionalInterfaceClass());
        out.putText(form.getFunctionalInterfaceMethodName());
        out.putText(form.getFunctionalInterfaceMethodSignature());
        out.buffer.putInt(form.getImplMethodKind());
        out.putText(form.getImplClass());
        out.putText(form.getImplMethodName());
        out.putText(form.getImplMethodSignature());
        out.putText(form.getInstantiatedMethodType());
        out.endData();
        for (int i = 0; i < form.getCapturedArgCount(); i++) {
            out.reference(form.getCapturedArg(i));
        }
    }

    @Override
    Object fill(Object created, ObjectBytes in, Object[] references) {
        Class<?> capturing = forms.classOf(in.getText());
        String interfaceClass = in.getText();
        String interfaceMethod = in.getText();
        String interfaceSignature = in.getText();
        int kind = in.getInt();
        SerializedLambda form = new SerializedLambda(
                capturing,
                interfaceClass,
                interfaceMethod,
                interfaceSignature,
                kind,
                in.getText(),
                in.getText(),
                in.getText(),
                in.getText(),
                references);
        forms.open(capturing);
        try {
            MethodHandle method = MethodHandles.privateLookupIn(capturing, MethodHandles.lookup())
                    .findStatic(
                            capturing,
                            "$deserializeLambda$",
                            MethodType.methodType(Object.class, SerializedLambda.class));
            return method.invoke(form);
        } catch (Throwable e) {
            throw new StoreException(
                    "cannot load a lambda of " + capturing.getName() + ", because the class no longer has its method "
                            + form.getImplMethodName() + ": compile the class as it was, and replace the lambda by a "
                            + "class with a name",
                    e);
        }
    }

    @Override
    String step(Object object, int reference) {
        return "captured[" + reference + "]";
    }
}
