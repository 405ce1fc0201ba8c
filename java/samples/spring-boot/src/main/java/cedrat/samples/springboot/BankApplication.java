package cedrat.samples.springboot;

import cedrat.persist.Store;
import java.nio.file.Path;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/// Starts the bank.
@SpringBootApplication
public class BankApplication {
    /// Starts it, with arguments of Spring Boot and `--bank.store=FOLDER`.
    public static void main(String[] arguments) {
        SpringApplication.run(BankApplication.class, arguments);
    }

    /// Returns the store, which is closed with the context.
    @Bean
    Store store(@Value("${bank.store}") Path folder) {
        return Store.open(folder);
    }
}
