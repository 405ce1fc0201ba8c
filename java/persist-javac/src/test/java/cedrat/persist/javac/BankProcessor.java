package cedrat.persist.javac;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.util.Set;
import javax.annotation.processing.AbstractProcessor;
import javax.annotation.processing.RoundEnvironment;
import javax.annotation.processing.SupportedAnnotationTypes;
import javax.lang.model.SourceVersion;
import javax.lang.model.element.TypeElement;

/// An annotation processor that writes a class with a transaction, for the program that has none of that
/// name.
@SupportedAnnotationTypes("*")
public final class BankProcessor extends AbstractProcessor {
    private boolean isWritten;

    @Override
    public SourceVersion getSupportedSourceVersion() {
        return SourceVersion.latest();
    }

    @Override
    public boolean process(Set<? extends TypeElement> annotations, RoundEnvironment round) {
        if (!isWritten) {
            isWritten = true;
            try (Writer writer =
                    processingEnv.getFiler().createSourceFile("Bank").openWriter()) {
                writer.write(ToolsTest.BANK);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        return false;
    }
}
