package cedrat.persist.form;

import cedrat.persist.StoreException;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.memory.Fields;
import java.lang.reflect.Field;

/// Objects that are the value of a static final field: the class and the name of that field. A load returns the
/// value that the field has in this process.
final class StaticFinalForm extends ConstantForm {
    private final StaticFinals constants;
    private final Fields slots;

    StaticFinalForm(Forms forms, StaticFinals constants, Fields slots) {
        super("java.lang.reflect.Field", forms);
        this.constants = constants;
        this.slots = slots;
    }

    @Override
    void write(Object object, ObjectWriter out) {
        Field field = constants.find(object);
        out.putText(forms.checkedName(field.getDeclaringClass().getName(), out));
        out.putText(field.getName());
        out.endData();
    }

    @Override
    Object fill(Object created, ObjectBytes in, Object[] references) {
        Class<?> declaring = forms.classOf(in.getText());
        String name = forms.fieldName(declaring, in.getText());
        Object value;
        try {
            value = slots.slot(declaring.getDeclaredField(name)).readReference(null);
        } catch (NoSuchFieldException e) {
            throw new StoreException(
                    "cannot load the constant " + declaring.getName() + "." + name + ", because the class has no such "
                            + "field: add it, or call StoreOptions.renameField if it has another name now",
                    e);
        }
        if (value == null) {
            throw new StoreException("cannot load the constant " + declaring.getName() + "." + name
                    + ", because it is null: load it when the class is initialised");
        }
        return value;
    }
}
